//! The log: to standard error, filtered by `RUST_LOG`.

use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

/// Lines that wait for whoever takes the log; more are dropped.
const WAITING: usize = 8192;
/// How often to look whether lines were dropped.
const LOOK: Duration = Duration::from_secs(5);

/// How lines are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

/// Starts logging, until the guard is dropped. With an invalid filter the server refuses to start.
///
/// A thread of its own writes the lines, so that a full pipe or a hanging disk delays no request. Lines that do not fit
/// into the buffer meanwhile are dropped and counted.
pub(crate) fn start(format: LogFormat) -> Result<WorkerGuard, super::Refusal> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => {
            filter.parse().map_err(|_| "RUST_LOG must be a log filter such as info or delivery_core=debug,warn")?
        }
        // PostgreSQL has a notice for each table that is there already.
        _ => Targets::new().with_default(LevelFilter::INFO).with_target("sqlx", LevelFilter::WARN),
    };
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING);
    let (writer, guard) = builder.finish(std::io::stderr());
    let dropped = writer.error_counter();
    // A log that cannot be written, such as on a full disk or to a closed pipe, must not stop the server: reporting it
    // panics.
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours).log_internal_errors(false);
    let log = tracing_subscriber::registry().with(filter);
    // Not `init`, which also collects records of the `log` crate: Rocket logs the queries of requests there.
    match format {
        LogFormat::Text => tracing::subscriber::set_global_default(log.with(lines))?,
        LogFormat::Json => tracing::subscriber::set_global_default(log.with(lines.json().with_ansi(false)))?,
    }
    // Panic messages go to the log as well, because writing to standard error may block.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    tokio::spawn(count(dropped));
    Ok(guard)
}

/// Says how many lines were dropped, once lines are taken again.
async fn count(dropped: ErrorCounter) {
    let mut told = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        let lines = dropped.dropped_lines();
        if lines > told {
            tracing::warn!(lines = lines - told, "lines of the log were dropped: nobody took them");
            // If this line was dropped too, the next one counts it.
            told = if dropped.dropped_lines() > lines { told } else { lines };
        }
    }
}
