//! The code that `axum_server` and `rocket_server` share. The two servers differ only in the framework.
//!
//! It is for developers who change one of these servers. An application of your own needs none of it: copy
//! `minimal_axum` or `minimal_rocket`, which read the settings of the API with `delivery_core::delivery::Settings`.
//!
//! * `settings`: all settings, each of which is a flag and an environment variable.
//! * `start`: the steps of a start, from the folders and secrets to the greeting.
//! * `connections`: limits for connections and requests, and how the server stops.
//! * `commands`: what the programs do instead of serving, such as a backup.
//! * `observe`: the log, metrics, and e-mails about failures.
//! * `docs`: the page of the API reference.

mod commands;
pub mod connections;
pub mod docs;
mod observe;
mod settings;
mod start;

use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use delivery_core::{Delivery, explain};

use self::connections::signal::Signals;
use self::observe::log;
use self::observe::metrics::Metrics;
use self::settings::given::Given;
use self::settings::listen::Listen;
use self::settings::{Settings, watch};
use self::start::assemble::{Service, assemble};
use self::start::welcome;

pub use self::connections::signal::Stop;
pub use self::start::background::BackgroundTasks;

/// Returns memory to the operating system after a burst of requests. The allocator of glibc does not.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long open requests may take once the server is asked to stop. `axum_server` counts from the signal,
/// `rocket_server` from the end of `STOP_DELAY`.
pub const GRACE: Duration = Duration::from_secs(25);
/// How long the process waits when it ends: for files that are being written, and for the last lines of the log.
const LINGER: Duration = Duration::from_secs(1);

/// Why the server does not start or a command fails, as a sentence for the operator.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// Everything a framework needs to serve.
pub struct Opened<L> {
    /// The socket.
    pub listener: L,
    /// Its address.
    pub address: SocketAddr,
    /// The service.
    pub delivery: Delivery,
    /// The background tasks, which are not started yet.
    pub background: BackgroundTasks,
    /// Reports when to stop.
    pub stop: Stop,
    listen: Listen,
}

/// Listens, opens the store, and assembles the service. Prints a greeting if this start made secrets.
async fn open<L>(settings: &Settings, signals: &Signals, bind: Bind<L>) -> Result<Opened<L>, Refusal> {
    let (listener, address) = bind(settings.listen.bind)
        .map_err(|error| format!("BIND (--bind): {} cannot be listened on: {error}", settings.listen.bind))?;
    let metrics = match settings.watch.metrics {
        Some(address) => Some(Metrics::listen(address).await?),
        None => None,
    };
    let Service { delivery, secrets, alerts } = assemble(settings, address).await?;
    if let Some(greeting) = welcome::greeting(&secrets, settings, address) {
        say(&greeting);
    }
    if let Some(metrics) = &metrics {
        tracing::info!("metrics at http://{}/metrics", metrics.address()?);
    }
    let background = BackgroundTasks {
        metrics,
        alerts,
        history: settings.watch.history,
        files: settings.objects.folder().map(Into::into),
        places: None,
    };
    let listen = settings.listen;
    Ok(Opened { listener, address, delivery, background, stop: Stop::new(signals.clone(), listen.stop_delay), listen })
}

/// Prints one line to standard output: the server answers requests from now on.
pub fn announce(address: SocketAddr) {
    say(&format!("listening on http://{address}"));
}

/// Prints to standard output, and ignores errors: a closed pipe must not stop the server.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Binds a socket to an address, and returns the socket and its actual address.
pub type Bind<L> = fn(SocketAddr) -> io::Result<(L, SocketAddr)>;

/// The maximum number of threads for blocking calls, such as opening files. Each thread keeps its memory until it has
/// been idle for ten seconds.
const BLOCKING_THREADS: usize = 64;

/// Runs the server, or the command that was given, until it ends. Prints an error to standard error.
pub fn run<L, S: Future<Output = Result<(), Refusal>>>(bind: Bind<L>, server: impl FnOnce(Opened<L>) -> S) -> ExitCode {
    // From now on, only the owner can access new files and folders, including those that libraries create.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    // The soft limit of open files is often 1,024. Each connection needs one. If the limit cannot be raised, it stays.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let mut is_json = false;
    let ran = Given::read().and_then(|given| {
        is_json = watch::is_json(&given);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
        let command = given.command.clone();
        let mut lines = None;
        let ran = runtime.block_on(async {
            let settings = Settings::check(given)?;
            lines = Some(log::start(settings.watch.log_format)?);
            match command {
                None => {
                    let signals = Signals::listen()?;
                    let opened = tokio::select! {
                        opened = open(&settings, &signals, bind) => opened?,
                        // Stopping here is safe: the next start continues with what this one has written.
                        () = signals.clone().asked(1) => return Ok(()),
                    };
                    let stop = opened.stop.clone();
                    tokio::select! {
                        ended = server(opened) => ended,
                        () = stop.overdue() => {
                            tracing::warn!("the server did not end in time, and what is open is cut off");
                            Ok(())
                        }
                    }
                }
                Some(command) => commands::run(command, &settings).await,
            }
        });
        // The wait is limited, because a disk may hang while a file is being written.
        runtime.shutdown_timeout(LINGER);
        // Writes the last lines of the log, unless standard error is blocked.
        briefly(move || drop(lines));
        ran
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            let error = explain(refusal.as_ref());
            let line = if is_json { log::json(&error) } else { format!("error: {error}") };
            briefly(move || drop(writeln!(io::stderr(), "{line}")));
            ExitCode::FAILURE
        }
    }
}

/// Runs `work`, and waits for it only briefly, so that a full pipe cannot keep the process from ending.
fn briefly(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        work();
        tell.send(())
    });
    // An error means that `work` takes longer or panicked. The process ends in either case.
    let _ = told.recv_timeout(LINGER);
}
