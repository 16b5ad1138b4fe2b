//! Signals that ask the server to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long a server may take to end after the first signal.
const LONGEST: Duration = Duration::from_secs(27);

/// How often the process was asked to stop, by SIGTERM or Ctrl-C.
#[derive(Clone)]
pub(crate) struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Handles signals from now on, so that they no longer end the process by themselves. The first process of a
    /// container would otherwise ignore them.
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

    /// Resolves once the process was asked to stop this many `times`.
    pub(crate) async fn asked(mut self, times: u32) {
        if self.0.wait_for(|count| *count >= times).await.is_err() {
            // The task above has ended, because the runtime shuts down.
            std::future::pending::<()>().await;
        }
    }
}

/// The shutdown of a server: when it begins, and when the server stops accepting connections. Clones share it.
#[derive(Clone)]
pub struct Stop {
    signals: Signals,
    delay: Duration,
    has_begun: Arc<AtomicBool>,
}

impl Stop {
    pub(crate) fn new(signals: Signals, delay: Duration) -> Self {
        Self { signals, delay, has_begun: Arc::default() }
    }

    /// Resolves once the process is asked to stop. From then on the server is not ready.
    pub async fn asked(&self) {
        self.signals.clone().asked(1).await;
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Waits for `STOP_DELAY` to end, or for a second signal, with which the operator ends the wait. The server accepts
    /// connections meanwhile.
    pub async fn delayed(&self) {
        if !self.delay.is_zero() {
            tracing::info!(seconds = self.delay.as_secs(), "stopping: still taking connections, for STOP_DELAY");
            let _ = tokio::time::timeout(self.delay, self.signals.clone().asked(2)).await;
        }
        tracing::info!("stopping: finishing open requests");
    }

    /// Resolves when the server should have ended, so that the process ends before a service manager kills it after 30 s.
    pub(crate) async fn overdue(&self) {
        self.signals.clone().asked(1).await;
        tokio::time::sleep(LONGEST).await;
    }

    /// Whether the process was asked to stop.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }
}
