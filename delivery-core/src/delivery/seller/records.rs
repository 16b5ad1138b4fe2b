//! Messages, the audit log, figures, and the erasure of a person.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::timeout;

use super::Desk;
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::MessageNumber;
use crate::store::{AuditEntry, AuditQuery, Figures, MessageQuery, Page, StoreError, StoredMessage};

/// The maximum time that a caller waits for figures, including the time in which the figures of other callers are
/// counted. Counting can take long, because it reads every key.
const FIGURES: Duration = Duration::from_mins(5);

impl Desk<'_> {
    /// Returns messages that match `query`, newest first. Messages are e-mails to buyers, and webhooks of the host
    /// application.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if the store cannot be read.
    pub async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        self.delivery.inner.office()?.messages(query).await
    }

    /// Retries a message that failed for good, and resets its count of attempts. Returns `false` if there is no message
    /// with this number, or if the message is queued or was sent.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change may not have been saved.
    pub async fn retry_message(&self, message: MessageNumber) -> Result<bool, StoreError> {
        let found = self.delivery.inner.ledger.retry_message(message, self.edit()).await?;
        self.delivery.inner.wake.notify_one();
        Ok(found)
    }

    /// Returns entries of the audit log that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if the store cannot be read.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        self.delivery.inner.office()?.audit(query).await
    }

    /// Returns how many keys each product has with each status. Also returns the figures of each of the last `days`
    /// days, including today: keys issued, keys revoked, uses counted and amounts paid. If `days` is 0, it counts as 1.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if the store cannot be read,
    /// or does not return the figures within five minutes.
    pub async fn figures(&self, days: u32) -> Result<Figures, StoreError> {
        let now = self.delivery.inner.clock.now();
        let since = now.checked_sub_signed(TimeDelta::days(i64::from(days.max(1)) - 1)).unwrap_or(now);
        // Only one call counts at a time. The timeout includes the wait for the turn, because many calls may wait if
        // the disk hangs.
        let counted = async {
            let _turn = self.delivery.inner.counting.lock().await;
            self.delivery.inner.office()?.figures(since, now).await
        };
        timeout(FIGURES, counted).await.map_err(|_| StoreError::unavailable("the figures do not come"))?
    }

    /// Erases a person. In keys, messages and the audit log, the address becomes `erased-RANDOM@erased.invalid`. No key
    /// is revoked, and a repeated order still returns its key. Returns the keys that had the address until now. The
    /// following is deleted:
    ///
    /// - the person's requests for lost keys
    /// - the platforms' references to the person
    /// - messages that wait to be sent to the address, if they are about a key that had the address
    /// - the content of platform events that name the person and still
    ///   [can be applied](crate::ledger::InboxEvent::can_be_applied)
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if some of the person's data
    /// may be left. The call can then be repeated.
    pub async fn erase(&self, email: &Email) -> Result<Vec<KeyId>, StoreError> {
        let inner = &self.delivery.inner;
        let mut random = [0; 10];
        inner.entropy.fill(&mut random);
        let random = data_encoding::HEXLOWER.encode(&random);
        let pseudonym = Email::erased(&random);
        let pseudonym = pseudonym.map_err(|error| StoreError::corrupt_because("a pseudonym", error))?;
        let erased = inner.office()?.erase(email, &pseudonym, self.edit()).await;
        // Delete the mailer's copies even if the store failed, so that as much as possible is erased at once.
        let forgotten = inner.outbox.mailer.forget(email).await;
        let erased = erased?;
        forgotten
            .map_err(|error| StoreError::unavailable_because("e-mails that were written are still there", error))?;
        Ok(erased)
    }
}
