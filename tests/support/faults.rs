//! What a PostgreSQL server can suffer.

use std::fs;
use std::process::{Command, Stdio};

use crate::postgres::Postgres;

impl Postgres {
    /// The number of the server's main process.
    pub fn process(&self) -> String {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().to_owned()
    }

    /// Sends a signal to the server itself: QUIT is an immediate restart, as after a crash, INT a fast one.
    pub fn signal(&self, signal: &str) {
        kill(signal, [&*self.process()]);
    }

    /// Sends a signal to every process of the server: STOP freezes it, CONT lets it go on.
    pub fn signal_all(&self, signal: &str) {
        let main = self.process();
        let children = Command::new("pgrep").args(["-P", &main]).output().unwrap();
        let children = String::from_utf8(children.stdout).unwrap();
        kill(signal, children.lines().chain([&*main]));
    }
}

fn kill<'a>(signal: &str, processes: impl IntoIterator<Item = &'a str>) {
    // One that has ended meanwhile needs no signal.
    let _ = Command::new("kill").arg(format!("-{signal}")).args(processes).stderr(Stdio::null()).status().unwrap();
}
