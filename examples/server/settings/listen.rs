//! The settings of connections: the address to listen on, how many there may be, and their timeouts.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

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

impl Default for Listen {
    /// Listens on 127.0.0.1:8080. The other defaults are in the table of settings.
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 8080).into(),
            max_connections: 0,
            max_connections_per_address: 0,
            head_timeout: Duration::ZERO,
            answer_timeout: Duration::ZERO,
            stop_delay: Duration::ZERO,
        }
    }
}

/// An address to listen on.
pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "must be an address and a port such as 127.0.0.1:8080")
}
