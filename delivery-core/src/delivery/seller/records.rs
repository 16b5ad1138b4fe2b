//! Messages, the audit log, figures, and forgetting a person.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::timeout;

use super::Desk;
use crate::delivery::Error;
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::MessageNumber;
use crate::order::Source;
use crate::product::{ProductId, RefName};
use crate::store::{AuditEntry, AuditQuery, Figures, MessageQuery, Office, Page, StoreError, StoredMessage};

/// How long figures are waited for, from when they are asked for. They read every key.
const FIGURES: Duration = Duration::from_mins(5);

impl Desk<'_> {
    /// Messages that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if it cannot tell.
    pub async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        self.office()?.messages(query).await
    }

    /// Retries a message that failed for good, with its attempts counted anew. Returns whether there was such a message.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may not be retried.
    pub async fn retry_message(&self, message: MessageNumber) -> Result<bool, StoreError> {
        let found = self.delivery.inner.ledger.retry_message(message, self.edit()).await?;
        self.delivery.inner.wake.notify_one();
        Ok(found)
    }

    /// Entries of the audit log that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if it cannot tell.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        self.office()?.audit(query).await
    }

    /// How the shop does: keys by product and status, and what happened on each of the last `days` days, today among them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if it cannot tell within five minutes.
    pub async fn figures(&self, days: u32) -> Result<Figures, StoreError> {
        let now = self.delivery.inner.clock.now();
        let since = now.checked_sub_signed(TimeDelta::days(i64::from(days.max(1)) - 1)).unwrap_or(now);
        // One at a time. Who waits for a turn waits no longer than who has it: behind a disk that hangs, that may be many.
        let counted = async {
            let _turn = self.delivery.inner.counting.lock().await;
            self.office()?.figures(since, now).await
        };
        timeout(FIGURES, counted).await.map_err(|_| StoreError::unavailable("the figures do not come"))?
    }

    /// Forgets a person: the address becomes `erased-RANDOM@erased.invalid` in keys, messages and the audit log, and what waits to
    /// be sent to it, or to be applied, is deleted. Nothing is revoked; orders are answered as before. Returns the keys that were
    /// sent to the address.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if something may be left: it can be
    /// called again.
    pub async fn erase(&self, email: &Email) -> Result<Vec<KeyId>, StoreError> {
        let inner = &self.delivery.inner;
        let mut random = [0; 10];
        inner.entropy.fill(&mut random);
        let random = data_encoding::HEXLOWER.encode(&random);
        let pseudonym = Email::erased(&random);
        let pseudonym = pseudonym.map_err(|error| StoreError::corrupt_because("a pseudonym", error))?;
        let erased = self.office()?.erase(email, &pseudonym, self.edit()).await;
        // Also if something is left in the store: each part is forgotten as soon as it can be.
        let forgotten = inner.outbox.mailer.forget(email).await;
        let erased = erased?;
        forgotten
            .map_err(|error| StoreError::unavailable_because("e-mails that were written are still there", error))?;
        Ok(erased)
    }

    fn office(&self) -> Result<&dyn Office, StoreError> {
        self.delivery.inner.ledger.office().ok_or(StoreError::Unsupported)
    }
}

impl Desk<'_> {
    /// Applies an event of a platform that waits for the seller or was dismissed, with what it did not say: the buyer's address, and the
    /// product of what was bought. Returns whether there is an event with this [number](crate::ledger::InboxEvent::number). One that is
    /// done is left as it is. If all that it sells was dismissed, that is taken back.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if it was possibly not applied.
    pub async fn apply_event(
        &self,
        number: i64,
        email: Option<Email>,
        product: Option<ProductId>,
    ) -> Result<bool, Error> {
        self.delivery.apply_event(number, email, product, self.actor).await
    }

    /// Puts an event of a platform aside that waits for the seller, until it is applied after all. Returns whether there is an event
    /// with this number. One that is done is left as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if it was possibly not dismissed.
    pub async fn dismiss_event(&self, number: i64) -> Result<bool, Error> {
        self.delivery.dismiss_event(number, self.actor).await
    }

    /// Puts all events of a product aside that is not sold here, past and to come, by what its platform calls it. Applying one of them
    /// takes that back. A name of a product that is sold here still sells it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no events; another [`StoreError`] if it was possibly not dismissed.
    pub async fn dismiss_product(&self, source: &Source, name: &RefName) -> Result<(), StoreError> {
        self.delivery.dismiss_product(source, name, self.actor).await
    }
}
