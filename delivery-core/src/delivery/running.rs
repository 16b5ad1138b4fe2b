//! Starting and stopping a service.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Delivery;
use crate::redact::why;
use crate::store::{Backlog, StoreError};
use crate::telemetry;
use crate::throttle::log_seldom;

/// The maximum time that [`Delivery::close`] waits for observers.
const PATIENCE: Duration = Duration::from_secs(5);

/// A started service. Call [`stop`](Self::stop) at shutdown. Dropping this value also stops the workers, but does not
/// wait for e-mails in progress.
///
/// ```
/// # use std::sync::Arc;
/// # use delivery_core::{mail::FolderMailer, store::SqliteStore};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (store, mail) = (folder.path().join("delivery.db"), folder.path().join("mail"));
/// use delivery_core::Delivery;
///
/// # let store = Arc::new(SqliteStore::open(store).await?);
/// # let mailer = Arc::new(FolderMailer::open(mail)?);
/// let delivery = Delivery::builder(store, mailer, "a signing secret that is kept".parse()?).build();
/// let running = delivery.start().await?;
/// // Serve requests with the handle `delivery`, until the process is told to stop.
/// running.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops sending e-mails"]
pub struct Running {
    delivery: Delivery,
    stop: watch::Sender<bool>,
    workers: [JoinHandle<()>; 4],
}

impl Delivery {
    /// [Registers](Self::register) the keyring in the store, then starts four workers as tasks of the current Tokio
    /// runtime. They send messages, apply platform events, read the platform secrets that the seller has set, and do
    /// the periodic work. Messages that failed with another sender or another [mail route](super::Builder::mail_route)
    /// are retried.
    ///
    /// # Errors
    ///
    /// As for [`register`](Self::register).
    pub async fn start(&self) -> Result<Running, StoreError> {
        self.register().await?;
        let inner = &self.inner;
        // If this fails, start the service nevertheless: the store may be full or temporarily unavailable.
        match inner.ledger.retry_messages(Some(inner.outbox.route), inner.clock.now()).await {
            Ok(0) => {}
            Ok(messages) => {
                tracing::info!(messages, "sender or mail server have changed: e-mails that failed are tried again");
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "e-mails that failed are not tried again yet");
            }
        }
        if inner.ledger.office().is_some()
            && let Err(error) = self.read_secrets().await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "secrets of platforms that were set at the desk are read later");
        }
        let (stop, stopped) = watch::channel(false);
        let (events, secrets, periodic, outbox) = (self.clone(), self.clone(), self.clone(), inner.outbox.clone());
        let apply = move |stop| events.clone().apply_all(stop);
        let watch = move |stop| secrets.clone().watch_secrets(stop);
        let tidy = move |stop| periodic.clone().do_chores(stop);
        let workers = [
            tokio::spawn(supervise("platform events", stopped.clone(), apply)),
            tokio::spawn(supervise("secrets of platforms", stopped.clone(), watch)),
            tokio::spawn(supervise("periodic work", stopped.clone(), tidy)),
            tokio::spawn(supervise("e-mails", stopped, move |stop| outbox.clone().run(stop))),
        ];
        Ok(Running { delivery: self.clone(), stop, workers })
    }

    /// Checks that the store responds. This is meant for a readiness probe.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not respond.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let ping = self.inner.ledger.ping().await;
        ping.inspect_err(|error| log_seldom!(warn, error = error, "not ready: the store cannot be used"))
    }

    /// Counts the messages that wait or failed, and the platform events that need the seller. Also sets the gauges
    /// `delivery_messages_queued`, `delivery_messages_failed`, `delivery_message_oldest_seconds` and
    /// `delivery_platform_events_waiting`, so call this before metrics are collected. The call is cheap, because it
    /// reads no rows of sent messages.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if the store does not
    /// respond.
    pub async fn backlog(&self) -> Result<Backlog, StoreError> {
        let backlog = self.inner.office()?.backlog().await?;
        let now = self.inner.clock.now();
        telemetry::backlog(
            [backlog.queued, backlog.failed, backlog.needs_attention],
            backlog.oldest.map(|oldest| now.signed_duration_since(oldest)),
        );
        Ok(backlog)
    }

    /// Closes the store, and waits up to five seconds for observers. Call this after the last request is answered,
    /// because later requests are answered 503. Without this call, the store cleans up when the last handle is dropped
    /// or at the next start. Acknowledged operations are safe with and without this call.
    pub async fn close(&self) {
        self.inner.ledger.close().await;
        if tokio::time::timeout(PATIENCE, self.flush_observers()).await.is_err() {
            tracing::warn!("observers are too slow: events still queued are dropped when the process ends");
        }
    }

    /// Waits until observers have been notified of all events so far.
    pub async fn flush_observers(&self) {
        self.inner.observers.flush().await;
    }

    /// Returns how many events were dropped because observers were too slow.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.inner.observers.dropped()
    }

    /// Checks that the keyring (the secrets that sign keys) fits the store, and records in the store which secrets the
    /// keyring has. Every keyring fits a new store. After the first success, further calls do nothing.
    /// [`start`](Self::start) calls this method. A host application that starts the service later can call it to detect
    /// wrong secrets sooner.
    ///
    /// # Errors
    ///
    /// [`StoreError::ForeignSecret`] if the store was used only with other secrets, or with another prefix of keys.
    /// [`StoreError::RetiredSecret`] if the keyring lacks the secret that signed the newest key of the store. Another
    /// [`StoreError`] if the store does not respond.
    pub async fn register(&self) -> Result<(), StoreError> {
        let inner = &self.inner;
        let register = || async {
            if inner.keyring.is_guessable() {
                tracing::warn!(
                    "a signing secret (KEY_SECRET) looks guessable: anyone with a key or the database can try secrets \
                     until one matches; generate a good one with `openssl rand -hex 32`"
                );
            }
            inner.ledger.register(&inner.keyring.fingerprints()).await
        };
        inner.registered.get_or_try_init(register).await?;
        Ok(())
    }
}

/// Runs a worker, and starts it again after a panic, so that a panic in a host application's store does not silently
/// stop e-mails. Messages and events that the worker had leased are leased again after these leases have expired.
async fn supervise<F: Future<Output = ()> + Send + 'static>(
    worker: &'static str,
    stop: watch::Receiver<bool>,
    run: impl Fn(watch::Receiver<bool>) -> F,
) {
    while let Err(error) = tokio::spawn(run(stop.clone())).await {
        tracing::error!(
            error = why(&error),
            worker,
            "a worker panicked and starts again; what it held is due again once its leases are over"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Runs `work` until `stop` is true, and then drops it at whatever it waits for. This is only for work that may be cut
/// off there and repeated later. A transaction that has begun in the store is completed or rolled back nevertheless.
pub(super) async fn until_stopped(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        // An error means that the sending half of the `stop` channel was dropped without a stop signal.
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

impl Running {
    /// Asks the workers to stop, and returns at once. A server calls this when it stops accepting connections, so
    /// that e-mails in progress and open requests are finished concurrently.
    pub fn stop_sending(&self) {
        // Fails if all workers have already ended.
        let _ = self.stop.send(true);
    }

    /// Stops the workers and waits for them. E-mails in progress are finished within seconds or returned to the
    /// queue. The store stays open for requests that are still being answered.
    pub async fn finish_sending(self) {
        self.stop_sending();
        for worker in self.workers {
            // Fails only if the runtime is shutting down.
            let _ = worker.await;
        }
    }

    /// Stops the workers, then [closes](Delivery::close) the store. Call this after the last request is answered.
    pub async fn stop(self) {
        let delivery = self.delivery.clone();
        self.finish_sending().await;
        delivery.close().await;
    }
}
