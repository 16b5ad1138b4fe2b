//! Being asked to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at SIGTERM or Ctrl-C.
pub async fn stop() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        Ok(()) = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("stopping: finishing open requests");
}
