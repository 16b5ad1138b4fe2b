//! A shop that has trouble all the time.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::clients::{Book, USES};
use crate::mail::Mail;
use crate::samples::{self, Sample};
use crate::visitors::Visitors;
use support::faketime;
use support::postgres::Postgres;
use support::process::{CONFIGURED, SECRET, Server, Site, TOKEN};
use support::wait_for;

/// How often memory and files are looked at.
const SAMPLE: Duration = Duration::from_secs(10);
/// More keys than any store caches.
const CACHED: usize = 300_000;
/// How long clients meet what a trouble has left, before it is mended.
const MEETING: Duration = Duration::from_secs(5);
/// How far the clock is set, in seconds: a day before and after the time that it is.
const STEP: f64 = 86_400.0;
/// A database that was killed is back within this.
const RECOVERY: Duration = Duration::from_mins(1);

/// What happens to a shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The last server is killed.
    Kill,
    /// The last server is asked to stop.
    Stop,
    /// The clock of the last server is set.
    Clock,
    /// The database is killed.
    Database,
    /// The database ends its sessions, and stops.
    DatabaseStops,
}

pub struct Shop {
    name: &'static str,
    troubles: Vec<Trouble>,
    sites: Vec<Site>,
    postgres: Option<&'static Postgres>,
    servers: Vec<Server>,
    mail: Mail,
    book: Book,
    visitors: Visitors,
    pause: Duration,
    chance: StdRng,
    /// What happened, how often.
    happened: Vec<Trouble>,
    /// The memory of the first server, and the size of the database's log file.
    memory: Mutex<Vec<Sample>>,
    log: Mutex<Vec<Sample>>,
}

impl Shop {
    pub fn new(
        name: &'static str,
        programs: &[&'static str],
        postgres: Option<&'static Postgres>,
        troubles: &[Trouble],
        pause: Duration,
    ) -> Self {
        #[expect(clippy::disallowed_methods, reason = "another trouble each time; when it comes no seed could repeat")]
        let chance = StdRng::from_rng(&mut rand::rng());
        let sites: Vec<Site> = programs.iter().map(|program| Site::new(program)).collect();
        for site in &sites {
            fs::write(site.path().join("clock"), "+0").unwrap();
        }
        let book = Book::new(pause, postgres.is_some());
        Self {
            name,
            troubles: troubles.to_vec(),
            sites,
            postgres,
            servers: Vec::new(),
            mail: Mail::start(),
            book,
            visitors: Visitors::default(),
            pause,
            chance,
            happened: Vec::new(),
            memory: Mutex::default(),
            log: Mutex::default(),
        }
    }

    /// Sells for so long, with a trouble now and then; no longer once another shop has failed.
    pub fn soak(&mut self, length: Duration, every: Duration, samples: &samples::File, failed: &AtomicBool) {
        self.servers = (0..self.sites.len()).map(|site| self.start(site)).collect();
        let (admin, json) = (format!("Authorization: Bearer {TOKEN}\r\n"), "Content-Type: application/json\r\n");
        let product = json!({ "name": "Guide", "content": "# Guide", "refs": { "gumroad": ["guide"] } }).to_string();
        assert_eq!(self.servers[0].call("POST", "/api/admin/product", &(admin + json), &product).0, 200);
        self.fill();
        let begin = now();
        while begin.elapsed() < length && !failed.load(Ordering::Relaxed) {
            let trouble = *self.troubles.choose(&mut self.chance).unwrap();
            let calm = every.mul_f64(self.chance.random_range(0.2..1.0));
            let (seed, hands): (u64, f64) = (self.chance.random(), self.chance.random());
            let shop = &*self;
            let visits = thread::scope(|scope| {
                // Ends with the clients.
                let (tell, told) = std::sync::mpsc::channel::<()>();
                let visitor = scope.spawn(move || shop.visit(seed, &told));
                shop.book.fill(&shop.servers, seed, || {
                    shop.watch(calm, begin, samples);
                    shop.happen(trouble, hands);
                    // Clients meet what is left.
                    shop.watch(MEETING, begin, samples);
                });
                drop(tell);
                visitor.join()
            });
            visits.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.happened.push(trouble);
            self.recover(trouble);
            self.book.finish(&self.servers[0]);
        }
    }

    /// Fills the key cache of the first server: until it is full, memory grows with each sale.
    fn fill(&self) {
        const CLIENTS: usize = 16;
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    for number in 0..CACHED / CLIENTS {
                        assert_eq!(self.servers[0].order(&format!("before {client}-{number}")).0, 200);
                    }
                });
            }
        });
    }

    fn visit(&self, seed: u64, told: &std::sync::mpsc::Receiver<()>) {
        let mut chance = StdRng::seed_from_u64(!seed);
        while told.recv_timeout(self.pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            self.visitors.visit(self.servers.choose(&mut chance).unwrap(), &mut chance);
        }
    }

    fn happen(&self, trouble: Trouble, chance: f64) {
        let last = self.sites.len() - 1;
        let server = self.servers[last].id();
        match trouble {
            Trouble::Kill => signal("-KILL", server),
            Trouble::Stop => signal("-TERM", server),
            Trouble::Clock => {
                #[expect(clippy::cast_possible_truncation, reason = "a day has few seconds")]
                let step = ((2.0 * chance - 1.0) * STEP) as i64;
                fs::write(self.sites[last].path().join("clock"), format!("{step:+}")).unwrap();
            }
            Trouble::Database => signal("-KILL", self.database()),
            // "Fast": sessions are cut off.
            Trouble::DatabaseStops => signal("-INT", self.database()),
        }
    }

    /// The process of the database.
    fn database(&self) -> u32 {
        let file = self.postgres.expect("a database").folder.join("data/postmaster.pid");
        fs::read_to_string(file).unwrap().lines().next().unwrap().parse().unwrap()
    }

    fn recover(&mut self, trouble: Trouble) {
        let last = self.sites.len() - 1;
        match trouble {
            Trouble::Kill => drop(self.servers.pop().unwrap().kill()),
            Trouble::Stop => drop(self.servers.pop().unwrap().ended()),
            _ => {}
        }
        if self.servers.len() == last {
            self.servers.push(self.start(last));
        }
        for server in &self.servers {
            wait_for(RECOVERY, || server.try_call("GET", "/readyz", "", "").is_some_and(|answer| answer.0 == 200));
        }
    }

    /// Looks at memory and files for so long.
    fn watch(&self, length: Duration, begin: Instant, samples: &samples::File) {
        let since = now();
        while since.elapsed() < length {
            let seconds = begin.elapsed().as_secs_f64();
            for (server, site) in self.servers.iter().zip(&self.sites) {
                if let Some(bytes) = samples::resident(server.id()) {
                    samples.add(self.name, &format!("{} memory", site.program), (seconds, bytes));
                }
            }
            if let Some(bytes) = samples::resident(self.servers[0].id()) {
                self.memory.lock().unwrap().push((seconds, bytes));
            }
            let (database, log) = self.files();
            samples.add(self.name, "database", (seconds, samples::size(&database) + samples::folder(&database)));
            let bytes = samples::size(&log) + samples::folder(&log);
            samples.add(self.name, "write-ahead log", (seconds, bytes));
            self.log.lock().unwrap().push((seconds, bytes));
            thread::park_timeout(SAMPLE.min(length.saturating_sub(since.elapsed())));
        }
    }

    /// The database and its write-ahead log.
    fn files(&self) -> (PathBuf, PathBuf) {
        match self.postgres {
            Some(postgres) => (postgres.folder.join("data/base"), postgres.folder.join("data/pg_wal")),
            None => (self.sites[0].data().join("delivery.db"), self.sites[0].data().join("delivery.db-wal")),
        }
    }

    /// Waits for the last e-mails, compares, prints.
    pub fn finish(&mut self) {
        let (keys, buyers) = (self.book.keys(), self.visitors.buyers());
        // The leases of the dead end, and clocks that were set do not matter.
        wait_for(Duration::from_mins(5), || {
            keys.values().all(|key| self.mail.has_key(key)) && buyers.iter().all(|buyer| self.mail.has_recipient(buyer))
        });
        for server in self.servers.drain(..) {
            server.terminate();
        }
        let (database, _) = self.files();
        let (memory, log) = (self.memory.get_mut().unwrap(), self.log.get_mut().unwrap());
        let most = |samples: &[Sample]| samples.iter().map(|sample| sample.1).fold(0.0, f64::max) / 1e6;
        let (taken, different) = self.mail.taken();
        let count = |trouble| self.happened.iter().filter(|happened| **happened == trouble).count();
        println!("\n{}", self.name);
        println!(
            "  {} kills, {} stops, {} clock steps, {} kills and {} stops of the database",
            count(Trouble::Kill),
            count(Trouble::Stop),
            count(Trouble::Clock),
            count(Trouble::Database),
            count(Trouble::DatabaseStops)
        );
        println!(
            "  {} answers to buyers: {} orders, {} uses; {} sales by a platform, {} other requests, {taken} e-mails of which {different} different",
            self.book.answered(),
            keys.len(),
            self.book.uses().values().sum::<u64>(),
            buyers.len(),
            self.visitors.answered.load(Ordering::Relaxed),
        );
        let first_is_killed = self.sites.len() == 1 && count(Trouble::Kill) + count(Trouble::Stop) > 0;
        let slope = if first_is_killed {
            String::new()
        } else {
            format!(", {:+.2} MB an hour in the second half", samples::slope(memory) / 1e6)
        };
        println!("  memory of {}: at most {:.1} MB{slope}", self.sites[0].program, most(memory));
        println!(
            "  database {:.1} MB, its log at most {:.1} MB",
            (samples::size(&database) + samples::folder(&database)) / 1e6,
            most(log)
        );
    }

    fn start(&self, site: usize) -> Server {
        let (uses, plenty) = (USES.to_string(), "1000000");
        let site = &self.sites[site];
        let mut settings = CONFIGURED.to_vec();
        settings.extend([("KEY_USES", uses.as_str()), ("SMTP_URL", &self.mail.url), ("GUMROAD_TOKEN", SECRET)]);
        let limits = ["PRODUCT", "VALIDATE", "WEBHOOK", "ADMIN", "FAILURES", "RESEND", "EVENTS", "DESK"];
        let limits = limits.map(|limit| format!("LIMIT_{limit}"));
        settings.extend(limits.iter().map(|limit| (limit.as_str(), plenty)));
        let url = self.postgres.map(Postgres::url);
        settings.extend(url.iter().map(|url| ("DATABASE_URL", url.as_str())));
        let mut command = site.command(&settings);
        // The clock that it sees is the file's, looked at each second. Intervals pass as they do.
        command
            .env("LD_PRELOAD", faketime::library())
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_CACHE_DURATION", "1");
        command.env("FAKETIME_TIMESTAMP_FILE", site.path().join("clock"));
        let log = OpenOptions::new().create(true).append(true).open(site.path().join("log")).unwrap();
        command.stderr(log);
        Server::start(command)
    }
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[expect(clippy::disallowed_methods, reason = "hours of real time are what this is about")]
fn now() -> Instant {
    Instant::now()
}
