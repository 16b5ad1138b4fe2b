//! Being asked to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often the process was asked to stop, by SIGTERM or Ctrl-C.
#[derive(Clone)]
pub(crate) struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Listens from now on: the process no longer ends by itself, also as the first of a container.
    pub(crate) fn listen() -> io::Result<Self> {
        let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (count, counted) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminated.recv() => {}
                    _ = interrupted.recv() => {}
                }
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(counted))
    }

    /// Resolves once the process was asked so often.
    pub(crate) async fn asked(mut self, times: u32) {
        if self.0.wait_for(|count| *count >= times).await.is_err() {
            // The runtime ends.
            std::future::pending::<()>().await;
        }
    }
}
