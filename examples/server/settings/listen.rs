//! The settings of connections: the address to listen on, how many there may be, and their timeouts.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::given::Given;
use crate::Refusal;

/// The address to listen on, the limits of connections, and their timeouts.
#[derive(Clone, Copy)]
pub(crate) struct Listen {
    pub bind: SocketAddr,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// How long a client may take to send the head of a request, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long a client may read nothing of an answer.
    pub answer_timeout: Duration,
    /// How long connections are accepted once the server is asked to stop.
    pub stop_delay: Duration,
}

impl Listen {
    pub(super) fn read(given: &Given) -> Result<Self, Refusal> {
        let connections = |name| given.number(name, 1..=usize::MAX, "must be 1 or more connections");
        let timeout = |name| given.number(name, 1..=300, "must be 1 to 300 seconds").map(Duration::from_secs);
        Ok(Self {
            bind: bound(given)?,
            max_connections: connections("MAX_CONNECTIONS")?,
            max_connections_per_address: connections("MAX_CONNECTIONS_PER_ADDRESS")?,
            head_timeout: timeout("HEAD_TIMEOUT")?,
            answer_timeout: timeout("ANSWER_TIMEOUT")?,
            stop_delay: given.number("STOP_DELAY", 0..=20, "must be 0 to 20 seconds").map(Duration::from_secs)?,
        })
    }
}

/// The address to listen on: `BIND`, else `PORT` at every IPv4 address, else 127.0.0.1:8080.
fn bound(given: &Given) -> Result<SocketAddr, Refusal> {
    let bind = given.read_as("BIND", address)?;
    if let Some(bind) = bind {
        return Ok(bind);
    }
    let port = given.read_as("PORT", |port| port.parse::<u16>().map_err(|_| "must be a port such as 8080"))?;
    Ok(port.map_or((Ipv4Addr::LOCALHOST, 8080).into(), |port| (Ipv4Addr::UNSPECIFIED, port).into()))
}

/// An address to listen on.
pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "must be an address and a port such as 127.0.0.1:8080")
}
