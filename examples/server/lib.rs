//! What the example servers share: settings, secrets, and putting the service together. Only the framework differs.

mod alarm;
mod alert;
mod assemble;
mod background;
mod command;
mod commands;
pub mod docs;
mod dotenv;
mod files;
pub mod health;
pub mod heard;
mod history;
mod idle;
mod listen;
mod log;
mod metrics;
mod pace;
mod pages;
mod places;
mod platforms;
mod private;
mod refusal;
mod requests;
mod secrets;
pub mod serve;
mod settings;
mod signal;
mod watch;
mod welcome;

use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use delivery_core::{Delivery, explain};
use tokio::net::TcpListener;

use self::assemble::{Service, assemble};
use self::background::BackgroundTasks;
use self::listen::Listen;
use self::metrics::Metrics;
use self::places::Places;
use self::settings::{Arguments, Settings};
use self::signal::Signals;

/// Gives memory back to the system once a flood of requests is over, which the allocator of glibc does not.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long open requests may take once the server is asked to stop, from the signal on.
pub const GRACE: Duration = Duration::from_secs(25);
/// How long files that are being written may take after that.
const LINGER: Duration = Duration::from_secs(1);

/// A refusal to start, with a sentence for the operator.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// Everything a framework needs to serve.
pub struct Opened {
    /// The socket that listens.
    listener: TcpListener,
    /// Its address.
    address: SocketAddr,
    /// The service.
    pub delivery: Delivery,
    /// Connections that may be served at once.
    places: Places,
    beside: BackgroundTasks,
    listen: Listen,
    signals: Signals,
}

/// Reads the settings, listens, opens the store, and greets the seller on the first start.
async fn open(settings: &Settings, signals: &Signals) -> Result<Opened, Refusal> {
    let listener = TcpListener::bind(settings.listen.bind)
        .await
        .map_err(|error| format!("BIND (--bind): {} cannot be listened on: {error}", settings.listen.bind))?;
    let address = listener.local_addr()?;
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
    let places = Places::new(settings.listen.max_connections, settings.listen.max_connections_per_address);
    let beside = BackgroundTasks { metrics, alerts, history: settings.watch.history };
    let (listen, signals) = (settings.listen, signals.clone());
    Ok(Opened { listener, address, delivery, places, beside, listen, signals })
}

/// Says on standard output, in one line, that requests are answered from now on.
fn announce(address: SocketAddr) {
    say(&format!("listening on http://{address}"));
}

/// Prints to standard output, and ignores errors: a closed pipe must not stop the server.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Runs a server to its end; a refusal is told on standard error.
pub fn run<S: Future<Output = Result<(), Refusal>>>(server: impl FnOnce(Opened) -> S) -> ExitCode {
    let mut is_json = false;
    let ran = Arguments::read().and_then(|arguments| {
        is_json = arguments.watch.is_json();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let command = arguments.command.clone();
        let mut lines = None;
        let ran = runtime.block_on(async {
            let settings = arguments.check()?;
            lines = Some(log::start(settings.watch.log_format)?);
            match command {
                None => {
                    let signals = Signals::listen()?;
                    let opened = tokio::select! {
                        opened = open(&settings, &signals) => opened?,
                        // Nothing was begun that the next start does not find.
                        () = signals.clone().asked(1) => return Ok(()),
                    };
                    server(opened).await
                }
                Some(command) => commands::run(command, &settings).await,
            }
        });
        // Does not wait any longer for files that are being written to a hanging disk.
        runtime.shutdown_timeout(LINGER);
        // The last lines, unless nobody takes them.
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
    // It takes longer, or it panicked: there is nothing else to do.
    let _ = told.recv_timeout(LINGER);
}
