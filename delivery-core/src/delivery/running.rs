//! Starting and stopping.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Delivery;
use crate::mail::Outbox;
use crate::store::StoreError;
use crate::throttle::Throttle;

/// A started service. Stop it at shutdown; dropping it stops sending too, without waiting.
#[derive(Debug)]
#[must_use = "dropping it stops sending letters"]
pub struct Running {
    delivery: Delivery,
    stop: watch::Sender<bool>,
    worker: JoinHandle<()>,
}

impl Delivery {
    /// Starts sending letters, in a task of the current Tokio runtime, after making sure that the store was made with one
    /// of the keyring's secrets. Letters that failed by another sender or another [way](super::Builder::mail_route) are tried
    /// again.
    ///
    /// # Errors
    ///
    /// [`StoreError::ForeignSecret`] if it was not; another [`StoreError`] if the store does not answer.
    pub async fn start(&self) -> Result<Running, StoreError> {
        self.enroll().await?;
        let inner = &self.inner;
        // A store that is full or away for the moment does not keep the service from starting.
        match inner.ledger.unpark_letters(Some(inner.outbox.route), inner.clock.now()).await {
            Ok(0) => {}
            Ok(letters) => {
                tracing::info!(letters, "sender or mail server have changed: letters that failed are tried again");
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "letters that failed are not tried again yet");
            }
        }
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(supervise(self.inner.outbox.clone(), stopped));
        Ok(Running { delivery: self.clone(), stop, worker })
    }

    /// The outbox, for hosts and tests that send letters at times of their own.
    #[must_use]
    pub fn outbox(&self) -> Arc<Outbox> {
        self.inner.outbox.clone()
    }

    /// Answers if the store answers: for a readiness probe.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it does not.
    pub async fn ready(&self) -> Result<(), StoreError> {
        static NOT_READY: Throttle = Throttle::new();
        self.inner.ledger.ping().await.inspect_err(|error| {
            if let Some(more) = NOT_READY.admit() {
                tracing::warn!(error = error as &dyn std::error::Error, more, "not ready: the store does not answer");
            }
        })
    }

    /// Closes the store, once the last request is answered: it tidies up, and every later call is answered 503. Without it
    /// the same is done when the last handle is dropped, or by the next start; what was acknowledged is safe either way.
    pub async fn close(&self) {
        self.inner.ledger.close().await;
    }

    /// Makes sure, once, that the store was made with a secret of the keyring: [`start`](Self::start) does, and a host
    /// that starts later can know sooner.
    ///
    /// # Errors
    ///
    /// [`StoreError::ForeignSecret`] if it was not; another [`StoreError`] if the store does not answer.
    pub async fn enroll(&self) -> Result<(), StoreError> {
        let inner = &self.inner;
        let enroll = || async {
            if inner.keyring.is_guessable() {
                tracing::warn!(
                    "a signing secret (KEY_SECRET) looks as if it could be guessed: who has a key, or the database, can try \
                     secrets until one fits; `openssl rand -hex 32` makes a good one"
                );
            }
            inner.ledger.enroll(&inner.keyring.fingerprints()).await
        };
        inner.enrolled.get_or_try_init(enroll).await?;
        Ok(())
    }
}

/// Keeps the outbox working: a host's store that panics must not end the sending of letters unnoticed.
async fn supervise(outbox: Arc<Outbox>, stop: watch::Receiver<bool>) {
    while let Err(error) = tokio::spawn(outbox.clone().run(stop.clone())).await {
        tracing::error!(%error, "the outbox panicked and starts again; its letters are sent once their leases are over");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

impl Running {
    /// Begins to stop sending, and returns at once: a server calls this when it stops accepting, so that letters under way
    /// and open requests are finished side by side.
    pub fn stop_sending(&self) {
        // Fails if the worker has ended already.
        let _ = self.stop.send(true);
    }

    /// Stops sending: what is under way is finished within seconds or given back. The store stays open, for requests that
    /// are still being answered.
    pub async fn finish_sending(self) {
        self.stop_sending();
        // Fails only if the runtime is shutting down.
        let _ = self.worker.await;
    }

    /// Stops sending, then [closes](Delivery::close) the store: once the last request is answered.
    pub async fn stop(self) {
        let delivery = self.delivery.clone();
        self.finish_sending().await;
        delivery.close().await;
    }
}
