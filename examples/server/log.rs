//! The log: to standard error, filtered by `RUST_LOG`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;

/// Starts logging. A filter that makes no sense is a refusal.
pub fn start() -> Result<(), super::Refusal> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => EnvFilter::try_new(filter)
            .map_err(|_| "RUST_LOG must be a log filter such as info or delivery_core=debug,warn")?,
        // PostgreSQL has a notice for each table that is there already.
        _ => EnvFilter::new("info,sqlx=warn"),
    };
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    // A log that cannot be written, on a full disk or to a closed pipe, must not stop the server: telling of it panics.
    let log = tracing_subscriber::registry().with(lines.log_internal_errors(false)).with(filter);
    // Not `init`, which also takes in what libraries tell the `log` crate: Rocket tells it the queries of requests.
    Ok(tracing::subscriber::set_global_default(log)?)
}
