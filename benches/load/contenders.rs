//! Who bears the load: processes, each with a folder of its own and the same keys.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};
use tempfile::TempDir;

use crate::bare::Answers;
use crate::sink::Sink;
use crate::wrk::{self, Load, Measured};
use crate::{bare, fill, hand, hand_postgres};
use support::process::{CONFIGURED, SECRET, Server, Site};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    AxumJson,
    AxumBytes,
    AxumWhole,
    RocketJson,
    RocketBytes,
    RocketWhole,
    Hand,
    HandOnSlowDisk,
    HandOnPostgres,
    OursOnAxum,
    OursOnRocket,
    OursOnSlowDisk,
    OursOnPostgres,
    /// Its e-mails go to a mail server instead of files.
    OursBySmtp,
    /// Told by signed events of a platform.
    OursByEvents,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Self::AxumJson => "bare axum, Json",
            Self::AxumBytes => "bare axum, bytes",
            Self::AxumWhole => "bare axum, Json and fields",
            Self::RocketJson => "bare Rocket, Json",
            Self::RocketBytes => "bare Rocket, bytes",
            Self::RocketWhole => "bare Rocket, Json and fields",
            Self::Hand | Self::HandOnSlowDisk | Self::HandOnPostgres => "written by hand",
            Self::OursOnAxum | Self::OursOnSlowDisk | Self::OursOnPostgres => "this, on axum",
            Self::OursBySmtp => "this, on axum, e-mails by SMTP",
            Self::OursOnRocket => "this, on Rocket",
            Self::OursByEvents => "this, on axum, events",
        }
    }

    /// What it is asked where others are asked for `load`.
    pub fn load(self, load: Load) -> Load {
        match (self, load) {
            (Self::OursByEvents, Load::Order) => Load::Event,
            (Self::OursByEvents, Load::Forged) => Load::ForgedEvent,
            (_, load) => load,
        }
    }

    pub fn on_postgres(self) -> bool {
        matches!(self, Self::HandOnPostgres | Self::OursOnPostgres)
    }

    fn slow_disk(self) -> bool {
        matches!(self, Self::HandOnSlowDisk | Self::OursOnSlowDisk)
    }
}

/// The folders, the keys, and the scripts of the load.
pub struct Ground {
    folder: TempDir,
    pub keys: Arc<[String]>,
    /// Keys in a store, with those that are revoked.
    filled: i64,
    scripts: wrk::Scripts,
    slow_fsync: PathBuf,
    /// In seconds, by the number of keys.
    warm_up: u32,
    postgres: OnceLock<Databases>,
    pub sink: Sink,
}

/// Addresses of databases with the same keys.
struct Databases {
    ours: String,
    by_hand: String,
}

impl Ground {
    pub fn new(keys: i64) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ring = fill::keyring();
        // Some are revoked.
        let numbers = (1..=keys).filter(|number| number % 100_000 != 7);
        let texts: Vec<String> =
            numbers.map(|number| ring.text(fill::id(number), ring.newest()).expose().to_owned()).collect();
        let scripts = wrk::Scripts::write(folder.path(), &texts, SECRET);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(fill::sqlite(&folder.path().join("delivery.db"), keys));
        runtime.block_on(hand::fill(&folder.path().join("hand.db"), &texts));
        let slow_fsync = folder.path().join("slow_fsync.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/load/slow_fsync.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&slow_fsync).arg(source);
        assert!(compiler.status().unwrap().success());
        let warm_up = u32::try_from(keys / 12_000).unwrap().max(1);
        let (postgres, sink) = (OnceLock::new(), Sink::start());
        Self { folder, keys: texts.into(), filled: keys, scripts, slow_fsync, warm_up, postgres, sink }
    }

    /// Made when they are first asked for.
    fn databases(&self) -> &Databases {
        self.postgres.get_or_init(|| {
            let server = support::postgres::postgres().url();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let (ours, ..) = runtime.block_on(fill::postgres(&server, "ours", self.filled));
            let by_hand = runtime.block_on(hand_postgres::fill(&server, &self.keys));
            Databases { ours, by_hand }
        })
    }

    /// A process, over a copy of the store of its own.
    pub fn start(&self, contender: Contender) -> Server {
        Server::start(self.command(contender))
    }

    pub fn command(&self, contender: Contender) -> Command {
        let data = tempfile::tempdir_in(&self.folder).unwrap().keep();
        let mut command = match contender {
            Contender::OursOnAxum | Contender::OursOnSlowDisk | Contender::OursByEvents => {
                self.ours("axum_server", &data)
            }
            Contender::OursOnRocket => self.ours("rocket_server", &data),
            Contender::OursOnPostgres => {
                let mut command = self.ours("axum_server", &data);
                command.env("DATABASE_URL", &self.databases().ours);
                command
            }
            Contender::OursBySmtp => {
                let mut command = self.ours("axum_server", &data);
                command.env("SMTP_URL", format!("smtp://{}", self.sink.address));
                command
            }
            Contender::HandOnPostgres => this_program(contender, self.databases().by_hand.as_ref()),
            other => {
                fs::copy(self.folder.path().join("hand.db"), data.join("hand.db")).unwrap();
                this_program(other, &data)
            }
        };
        if contender.slow_disk() {
            command.env("LD_PRELOAD", &self.slow_fsync);
        }
        command
    }

    fn ours(&self, program: &'static str, data: &Path) -> Command {
        fs::copy(self.folder.path().join("delivery.db"), data.join("delivery.db")).unwrap();
        let limits = ["LIMIT_PRODUCT", "LIMIT_VALIDATE", "LIMIT_WEBHOOK", "LIMIT_FAILURES", "LIMIT_EVENTS"];
        let data = data.to_str().unwrap();
        let mut settings = CONFIGURED.to_vec();
        settings.extend([
            ("KEY_SECRET", fill::SECRET),
            ("DATA_DIR", data),
            ("RUST_LOG", "warn"),
            ("SHOPIFY_SECRET", SECRET),
        ]);
        settings.extend(limits.map(|limit| (limit, "100000000")));
        let mut command = Site::new(program).command(&settings);
        command.current_dir(data).stderr(std::process::Stdio::inherit());
        command
    }

    /// A process over a store whose e-mails, two for each key, all wait to be sent.
    pub fn start_with_messages(&self) -> Server {
        let data = tempfile::tempdir_in(&self.folder).unwrap().keep();
        let mut command = self.ours("axum_server", &data);
        let file = data.join("delivery.db");
        tokio::runtime::Runtime::new().unwrap().block_on(all_messages_wait(&file));
        command.env("SMTP_URL", format!("smtp://{}", self.sink.address));
        Server::start(command)
    }

    /// Every key has been asked for once: what is measured is a server that runs, not one that has just begun.
    pub fn warm_up(&self, server: &Server) {
        self.scripts.run(server.address, Load::Validate, 64, self.warm_up);
    }

    /// Measures a server under a load.
    pub fn press(&self, server: &Server, load: Load, connections: u32, seconds: u32) -> Measured {
        let before = processor_time(server.id());
        let mut measured = self.scripts.run(server.address, load, connections, seconds);
        let used = processor_time(server.id()).checked_sub(before).unwrap();
        measured.processor = used.as_secs_f64() * 1e6 / measured.requests;
        measured
    }

    /// What the disk itself takes: an appended page, synced.
    pub fn disk(&self) {
        let mut file = fs::File::create(self.folder.path().join("sync")).unwrap();
        file.write_all(&vec![0; 4 << 20]).unwrap();
        file.sync_all().unwrap();
        let mut times: Vec<Duration> = (0..500)
            .map(|page| {
                #[expect(clippy::disallowed_methods, reason = "this is what is measured")]
                let started = Instant::now();
                file.write_all_at(&[1; 4096], page * 4096).unwrap();
                file.sync_data().unwrap();
                started.elapsed()
            })
            .collect();
        times.sort();
        println!("fdatasync of a page: {:?} in the middle, {:?} at the 99th of 100", times[250], times[495]);
    }
}

/// This program as another process.
fn this_program(contender: Contender, argument: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--serve", &format!("{contender:?}")]).arg(argument);
    command.stdout(std::process::Stdio::piped());
    command
}

/// What a process has used, as the kernel tells: in hundredths of a second.
fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Serves in this process.
pub fn serve(name: &str, place: &str) {
    match name {
        "AxumJson" => bare::axum(Answers::Json),
        "AxumBytes" => bare::axum(Answers::Bytes),
        "AxumWhole" => bare::axum(Answers::Whole),
        "RocketJson" => bare::rocket(Answers::Json),
        "RocketBytes" => bare::rocket(Answers::Bytes),
        "RocketWhole" => bare::rocket(Answers::Whole),
        "HandOnPostgres" => hand_postgres::serve(place),
        _ => hand::serve(&Path::new(place).join("hand.db")),
    }
}

/// Two e-mails for each key wait in this store, which is not open.
async fn all_messages_wait(file: &Path) {
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    for sql in [
        "UPDATE delivery_message SET state = 0, attempts = 0",
        "INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
         SELECT number + (SELECT max(number) FROM delivery_message), key, kind, recipient, 'again-' || message_id, \
            queued_at, due_at \
         FROM delivery_message",
    ] {
        connection.execute(sql).await.unwrap();
    }
    connection.close().await.unwrap();
}
