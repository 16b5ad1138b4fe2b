//! Messages, the audit log, and figures.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::timeout;

use super::Desk;
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
}
