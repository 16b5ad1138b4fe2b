//! A shop of one or two server processes that crashes.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;

use super::clients::{Book, USES};
use support::postgres::{Postgres, administer};
use support::process::{PLENTY, Server, Site, configured};
use support::smtp::{Script, SmtpServer};
use support::wait_for;

/// A kill comes after at most so many answers.
const ANSWERS: usize = 600;
/// A start is killed within this, if it is.
const STARTING_MS: u64 = 40;

pub struct Shop {
    pub name: String,
    pub book: Book,
    pub mail: SmtpServer,
    /// How long each start took, to its first answer.
    pub starts: Vec<Duration>,
    /// A folder for each server.
    pub sites: Vec<Site>,
    pub postgres: Option<(&'static Postgres, String)>,
    servers: Vec<Server>,
    runtime: Runtime,
    chance: StdRng,
}

impl Shop {
    pub fn over_sqlite(program: &'static str) -> Self {
        Self::new(format!("{program} over SQLite"), vec![Site::new(program)], None)
    }

    pub fn over_postgres(database: &'static Postgres) -> Self {
        let sites = vec![Site::new("axum_server"), Site::new("rocket_server")];
        Self::new("both over PostgreSQL".to_owned(), sites, Some((database, database.database())))
    }

    fn new(name: String, sites: Vec<Site>, postgres: Option<(&'static Postgres, String)>) -> Self {
        let runtime = Runtime::new().unwrap();
        let mail = SmtpServer::alone(Script::Accept);
        #[expect(clippy::disallowed_methods, reason = "a seed would not repeat the crashes: their times vary")]
        let chance = StdRng::from_rng(&mut rand::rng());
        let (book, starts, servers) = (Book::new(Duration::ZERO, postgres.is_some()), Vec::new(), Vec::new());
        Self { name, book, mail, starts, sites, postgres, servers, runtime, chance }
    }

    /// Starts every server, some after a start that was killed, and asks what clients are in doubt about.
    pub fn start(&mut self) {
        let sold = !self.starts.is_empty();
        for site in 0..self.sites.len() {
            if self.chance.random_bool(0.3) {
                let mut start = self.command(site).spawn().unwrap();
                thread::park_timeout(Duration::from_millis(self.chance.random_range(0..STARTING_MS)));
                start.kill().unwrap();
                start.wait().unwrap();
            }
            #[expect(clippy::disallowed_methods, reason = "real processes take real time")]
            let started = std::time::Instant::now();
            let server = Server::start(self.command(site));
            assert_eq!(server.call("GET", "/readyz", "", "").0, 200);
            self.starts.push(started.elapsed());
            self.servers.push(server);
        }
        if sold {
            self.book.finish(&self.servers[0]);
        } else {
            assert_eq!(self.servers[0].add_product().0, 200);
        }
    }

    /// Clients are served, and in the middle of it the servers are killed, one after the other.
    pub fn crash(&mut self) {
        let (book, servers, chance) = (&self.book, &self.servers, &mut self.chance);
        let (seed, first) = (chance.random(), (0..servers.len()).choose(chance).unwrap());
        let moments: Vec<usize> = servers.iter().map(|_| chance.random_range(1..ANSWERS)).collect();
        book.fill(servers, seed, || {
            for (nth, moment) in moments.into_iter().enumerate() {
                let answered = book.answered();
                wait_for(Duration::from_mins(1), || book.answered() >= answered + moment);
                servers[(first + nth) % servers.len()].signal("-KILL");
            }
        });
        for server in self.servers.drain(..) {
            server.kill();
        }
    }

    /// Ends the servers as a service manager does.
    pub fn stop(&mut self) {
        for server in self.servers.drain(..) {
            server.terminate();
        }
    }

    /// As if the leases of the dead had run out, which takes five minutes. An SQLite file has one server, which knows that
    /// whatever was leased before its start is leased by nobody.
    pub fn release_messages(&self) {
        if let Some((_, url)) = &self.postgres {
            administer(url, "UPDATE delivery.delivery_message SET due_at = 0, token = token + 1 WHERE state = 0");
        }
    }

    /// What the servers wrote to standard error.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.sites.iter().map(|site| site.path().join("log")).collect()
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn command(&self, site: usize) -> Command {
        let uses = USES.to_string();
        let mut settings = configured(&PLENTY);
        settings.extend([("KEY_USES", uses.as_str()), ("SMTP_URL", &self.mail.url), ("RUST_LOG", "debug")]);
        settings.extend(self.postgres.iter().map(|(_, url)| ("DATABASE_URL", url.as_str())));
        let mut command = self.sites[site].command(&settings);
        let log: File = OpenOptions::new().create(true).append(true).open(&self.logs()[site]).unwrap();
        command.stderr(log);
        command
    }
}
