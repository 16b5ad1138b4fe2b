//! The settings of connections: where they come from, how many there may be, and how they end.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

use super::Refusal;
use super::refusal::read;

/// The longest that a server which is asked to stop may still take connections, in seconds.
const LONGEST_DELAY: u64 = 20;
/// The longest that a client may be waited for, in seconds.
const LONGEST_TIMEOUT: u64 = 300;

#[derive(Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ListenArguments {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, env)]
    bind: Option<String>,
    /// Port to listen on at every address where BIND is not set, as hosting platforms set it
    #[arg(long, env)]
    port: Option<String>,
    /// Connections served at once; when all are taken, the one that has been idle longest, or has sent next to nothing of a body for
    /// a second, makes room for a client that sends a request; if there is none, the one that has been sending a body longest, once
    /// that is two seconds
    #[arg(long, env, default_value = "10000")]
    max_connections: String,
    /// Connections served at once for one address, four thousand more wait in line; trusted proxies are exempt
    #[arg(long, env, default_value = "1000")]
    max_connections_per_address: String,
    /// Seconds, 1 to 300, that a client may take over the head of a request, and that a connection may be idle
    #[arg(long, env, default_value = "15")]
    head_timeout: String,
    /// Seconds, 1 to 300, that a client may take nothing of an answer
    #[arg(long, env, default_value = "30")]
    answer_timeout: String,
    /// Seconds, 0 to 20 of the 30 in which it ends, that a server which is asked to stop still takes connections while /readyz answers
    /// 503, for a load balancer
    #[arg(long, env, default_value = "0")]
    stop_delay: String,
}

/// Where connections come from, how many, and how they end.
#[derive(Clone, Copy)]
pub(crate) struct Listen {
    pub bind: SocketAddr,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// How long a client may take over the head of a request, and a connection be idle.
    pub head_timeout: Duration,
    /// How long a client may take nothing of an answer.
    pub answer_timeout: Duration,
    /// How long connections are accepted once the server is asked to stop.
    pub stop_delay: Duration,
}

impl ListenArguments {
    /// Checks every setting; a refusal names the setting and what it takes.
    pub(crate) fn check(&self) -> Result<Listen, Refusal> {
        let connections = |text: &str| {
            let number = text.parse().ok().filter(|number| *number >= 1);
            number.ok_or("must be 1 or more connections")
        };
        let timeout = |text: &str| {
            let seconds = text.parse().ok().filter(|seconds| (1..=LONGEST_TIMEOUT).contains(seconds));
            seconds.map(Duration::from_secs).ok_or("must be 1 to 300 seconds")
        };
        let per_address = &self.max_connections_per_address;
        Ok(Listen {
            bind: self.bound()?,
            max_connections: read("MAX_CONNECTIONS", &self.max_connections, connections)?,
            max_connections_per_address: read("MAX_CONNECTIONS_PER_ADDRESS", per_address, connections)?,
            head_timeout: read("HEAD_TIMEOUT", &self.head_timeout, timeout)?,
            answer_timeout: read("ANSWER_TIMEOUT", &self.answer_timeout, timeout)?,
            stop_delay: read("STOP_DELAY", &self.stop_delay, |text| {
                let seconds = text.parse().ok().filter(|seconds| *seconds <= LONGEST_DELAY);
                seconds.map(Duration::from_secs).ok_or("must be 0 to 20 seconds")
            })?,
        })
    }

    /// Where to listen.
    fn bound(&self) -> Result<SocketAddr, Refusal> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        match (given(&self.bind), given(&self.port)) {
            (Some(bind), _) => read("BIND", &bind, address),
            (None, Some(port)) => read("PORT", &port, |port| {
                let port = port.parse::<u16>().map_err(|_| "must be a port such as 8080");
                port.map(|port| (Ipv4Addr::UNSPECIFIED, port).into())
            }),
            (None, None) => Ok((Ipv4Addr::LOCALHOST, 8080).into()),
        }
    }
}

/// An address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "must be an address and a port such as 127.0.0.1:8080")
}
