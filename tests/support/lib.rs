//! What tests of the whole stand on: private servers, started from the machine's programs on free ports, in temporary folders;
//! and Delivery's own servers, started as a seller starts them. They end with the test process, however that ends.

pub mod faketime;
mod faults;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod programs;
pub mod redis;
pub mod smtp;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Starts a shell that runs `script` with the folder of programs, the server's own folder and its port. It learns that this
/// process has ended, in whatever way, when its standard input is closed, and then ends the server.
pub fn supervise(mut shell: Command, script: &str, binaries: &Path, folder: &Path, port: u16) -> Child {
    shell.args(["-c", script, "sh"]).arg(binaries).arg(folder).arg(port.to_string());
    // Ctrl-C in a terminal is for the tests, not for what ends with them.
    shell.process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// What is long by nature, such as rounds of crashes, is `short`, or `long` with `CI_LONG` set.
pub fn rounds<T>(short: T, long: T) -> T {
    if std::env::var_os("CI_LONG").is_some() { long } else { short }
}

/// The same, unless the variable says a number.
pub fn rounds_of(variable: &str, short: u32, long: u32) -> u32 {
    std::env::var(variable).map_or_else(|_| rounds(short, long), |number| number.parse().unwrap())
}

/// A port that nobody listens on, each time another one. It is below those that the system gives to programs that ask for any: a server
/// or a client beside the test, or a client that knocks until somebody listens, might be given it meanwhile.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = u16::try_from(std::process::id() % 20_000).unwrap();
    let mut ports = std::iter::repeat_with(|| 10_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// A socket that has a port and does not listen on it, and its address. While it lives, nobody else can listen there.
pub fn nobody() -> (tokio::net::TcpSocket, SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Looks again and again until it is so.
pub fn wait_for(deadline: Duration, mut condition: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < deadline, "it never came to be");
        // Gives the other process the processor.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
