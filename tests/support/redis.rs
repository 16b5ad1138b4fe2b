//! A private Redis server.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use crate::programs;
use crate::{free_port, supervise, wait_for};

/// A Redis server that ends with this process. One that is killed is started again, empty.
pub struct Redis {
    port: u16,
    folder: PathBuf,
    /// Ends the server when its standard input is closed.
    _supervisor: Child,
}

/// The server of this test binary. Tests that need one of their own [start](Redis::start) it.
pub fn redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(Redis::start)
}

impl Redis {
    /// A new server, beside the others.
    pub fn start() -> Self {
        let binaries = programs::folder("redis-server");
        let folder = tempfile::Builder::new().prefix("delivery-redis-").tempdir().unwrap().keep();
        let port = free_port();
        let script = r#"(while :; do "$1/redis-server" --port "$3" --bind 127.0.0.1 --save "" --dir "$2" \
                --pidfile "$2/pid" --daemonize no >/dev/null 2>&1; sleep 0.1; done) & loop=$!
            cat >/dev/null; kill $loop; kill -KILL $(cat "$2/pid"); rm -rf "$2""#;
        let supervisor = supervise(Command::new("sh"), script, &binaries, &folder, port);
        let server = Self { port, folder, _supervisor: supervisor };
        wait_for(Duration::from_mins(1), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok() && server.process().is_some()
        });
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's process.
    pub fn process(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("pid")).ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
    }
}
