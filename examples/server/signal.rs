//! Being asked to stop.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Listens for SIGTERM and Ctrl-C from now on; the future resolves at the first of them.
pub(crate) fn stop() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("stopping: finishing open requests");
    })
}
