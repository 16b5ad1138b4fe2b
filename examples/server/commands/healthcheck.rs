//! Asks the running server whether it is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::connections::health;
use crate::settings::Settings;
use crate::{Refusal, say};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of the answer is read, in bytes. The whole answer is shorter.
const HEAD: u64 = 4096;

pub(super) async fn run(settings: &Settings) -> Result<(), Refusal> {
    let mut address = settings.listen.bind;
    if address.port() == 0 {
        return Err("BIND (--bind) must name a port other than 0, at which the server can be asked".into());
    }
    // A server that listens on every address can be reached at the loopback address.
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            IpAddr::V6(Ipv6Addr::LOCALHOST)
        });
    }
    let asked = tokio::time::timeout(PATIENCE, ask(address)).await;
    let answer = asked.map_err(|_| format!("the server at {address} does not answer"))?;
    let answer = answer.map_err(|error| format!("the server at {address} cannot be reached: {error}"))?;
    match answer.split(' ').nth(1) {
        Some("200") => {
            say("ready");
            Ok(())
        }
        Some("503") if answer.contains("stopping") => Err(format!("the server at {address} stops").into()),
        Some("503") => Err(format!("the server at {address} is not ready: its log says why").into()),
        _ => Err(format!("at {address} there is another server").into()),
    }
}

async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let path = health::READY;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(HEAD).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
