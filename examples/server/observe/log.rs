//! The log: to standard error, filtered by `RUST_LOG`.

use std::time::Duration;

use delivery_core::{Clock, SystemClock, redacted};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::Refusal;
use crate::settings::watch::LogFormat;

/// The maximum number of lines that wait for the reader of the log. Further lines are dropped.
const WAITING: usize = 8192;
/// How often to look whether lines were dropped.
const LOOK: Duration = Duration::from_secs(5);

/// Starts the log. Dropping the guard writes the remaining lines and ends the log. Returns an error if `RUST_LOG` is
/// invalid.
///
/// A separate thread writes the lines, so that a full pipe or a hanging disk delays no request. Lines that do not fit
/// into the buffer are dropped and counted.
pub(crate) fn start(format: LogFormat) -> Result<WorkerGuard, Refusal> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => {
            filter(&text).ok_or("RUST_LOG must be a log filter such as info or delivery_core=debug,warn")?
        }
        // At level INFO, sqlx logs PostgreSQL's notice for each table that already exists.
        _ => Targets::new().with_default(LevelFilter::INFO).with_target("sqlx", LevelFilter::WARN),
    };
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING);
    let (writer, guard) = builder.finish(std::io::stderr());
    let dropped = writer.error_counter();
    // A log that cannot be written, such as on a full disk or to a closed pipe, must not stop the server. With
    // `log_internal_errors`, reporting the error would panic.
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours).log_internal_errors(false);
    let log = tracing_subscriber::registry().with(filter);
    // Not `init`, which also collects records of the `log` crate: Rocket logs the queries of requests there.
    match format {
        LogFormat::Text => tracing::subscriber::set_global_default(log.with(lines))?,
        LogFormat::Json => tracing::subscriber::set_global_default(log.with(lines.json().with_ansi(false)))?,
    }
    // Panic messages go to the log as well, because writing to standard error may block.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{}", redacted(&panic.to_string()))));
    tokio::spawn(count(dropped));
    Ok(guard)
}

/// Formats an error as a line of the JSON log. It is printed directly, because the log has not started or has ended.
pub(crate) fn json(error: &str) -> String {
    let timestamp = SystemClock::default().now();
    serde_json::json!({ "timestamp": timestamp, "level": "ERROR", "fields": { "message": error }, "target": "server" })
        .to_string()
}

/// Parses a filter of levels and `target=level` pairs; `None` if it is invalid. A word alone must be a level:
/// [`Targets`] would take a mistyped level for a target, and nothing else would be logged.
fn filter(text: &str) -> Option<Targets> {
    let is_level = |text: &str| text.parse::<LevelFilter>().is_ok();
    let is_target = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':'));
    let is_known = |directive: &str| match directive.split_once('=') {
        Some((target, level)) => !target.is_empty() && is_target(target) && is_level(level),
        None => is_level(directive),
    };
    text.split(',').all(is_known).then(|| text.parse().ok())?
}

/// Logs how many lines were dropped since the last report.
async fn count(dropped: ErrorCounter) {
    let mut told = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        let lines = dropped.dropped_lines();
        if lines > told {
            tracing::warn!(lines = lines - told, "lines of the log were dropped: nobody took them");
            // If this report was dropped too, the next one includes the same lines.
            told = if dropped.dropped_lines() > lines { told } else { lines };
        }
    }
}
