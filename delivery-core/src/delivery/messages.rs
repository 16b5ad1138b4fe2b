//! Messages: makes the ids of messages that are about to be queued, and retries messages that failed.

use super::Delivery;
use crate::key::{Actor, KeyId};
use crate::ledger::{Addressee, FailedMessage, MessageId, MessageKind, MessageNumber, Notice};
use crate::store::StoreError;

impl Delivery {
    /// Returns messages that failed for good, in the order in which they failed, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        self.inner.ledger.failed_messages(limit).await
    }

    /// Retries all messages that failed for good, and messages that wait for their next attempt. A waiting e-mail that
    /// a mail server may already have accepted is left out. Returns how many messages were made due.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some messages may not have been made due.
    pub async fn retry_messages(&self) -> Result<u64, StoreError> {
        let count = self.inner.ledger.retry_messages(None, self.inner.clock.now()).await?;
        self.inner.wake.notify_one();
        Ok(count)
    }

    /// Retries a message that failed for good, as [`Actor::admin`]. Returns whether there was such a message.
    ///
    /// # Errors
    ///
    /// As for [`Desk::retry_message`](super::Desk::retry_message).
    pub async fn retry_message(&self, message: MessageNumber) -> Result<bool, StoreError> {
        self.desk(&Actor::admin()).retry_message(message).await
    }

    /// Returns the `Message-ID` of the first e-mail about a key. The `Message-ID` contains the key's id.
    pub(super) fn message_id(&self, key: KeyId) -> Result<MessageId, StoreError> {
        self.id_of(&key.to_string())
    }

    /// Returns a new random `Message-ID`, for a further e-mail about a key.
    pub(super) fn new_message_id(&self) -> Result<MessageId, StoreError> {
        self.id_of(&self.new_key_id().to_string())
    }

    /// Makes a message for each of the host application's webhooks. The caller queues these messages in the same commit
    /// as the change that they announce.
    pub(super) fn webhooks(&self, kind: MessageKind) -> Result<Vec<Notice>, StoreError> {
        let notice = |name: &crate::ledger::WebhookName| {
            let id = self.id_of(&format!("msg_{}", self.new_key_id()))?;
            Ok(Notice { id, kind, to: Addressee::Webhook(name.clone()) })
        };
        self.inner.webhooks.iter().map(notice).collect()
    }

    fn id_of(&self, left: &str) -> Result<MessageId, StoreError> {
        let domain = self.inner.outbox.sender.domain();
        MessageId::new(format!("{left}@{domain}"))
            .map_err(|error| StoreError::corrupt_because("a sender without a domain", error))
    }
}
