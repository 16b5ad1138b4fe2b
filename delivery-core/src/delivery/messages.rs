//! Messages: those that are queued with a commit, and what a seller does with those that failed.

use super::Delivery;
use crate::key::{Actor, KeyId};
use crate::ledger::{Addressee, FailedMessage, MessageId, MessageKind, MessageNumber, Notice};
use crate::store::StoreError;

impl Delivery {
    /// E-mails that were given up, in the order in which they were, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    pub async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        self.inner.ledger.failed_messages(limit).await
    }

    /// Retries all e-mails that failed for good, and those that wait for their next attempt, unless a mail server may
    /// have taken them. Returns how many there were.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some may not be retried.
    pub async fn retry_messages(&self) -> Result<u64, StoreError> {
        let count = self.inner.ledger.retry_messages(None, self.inner.clock.now()).await?;
        self.inner.wake.notify_one();
        Ok(count)
    }

    /// Retries an e-mail that failed for good, as [`Actor::admin`].
    ///
    /// # Errors
    ///
    /// As [`Desk::retry_message`](super::Desk::retry_message).
    pub async fn retry_message(&self, message: MessageNumber) -> Result<bool, StoreError> {
        self.desk(&Actor::admin()).retry_message(message).await
    }

    /// The `Message-ID` of the e-mail that brings a key first: the id of the key identifies both.
    pub(super) fn message_id(&self, key: KeyId) -> Result<MessageId, StoreError> {
        self.id_of(&key.to_string())
    }

    /// The `Message-ID` of a further e-mail.
    pub(super) fn new_message_id(&self) -> Result<MessageId, StoreError> {
        self.id_of(&KeyId::random(self.inner.clock.as_ref(), self.inner.entropy.as_ref()).to_string())
    }

    /// What is queued for the host's webhooks, to tell them of a commit.
    pub(super) fn webhooks(&self, kind: MessageKind) -> Result<Vec<Notice>, StoreError> {
        let notice = |name: &crate::ledger::WebhookName| {
            let random = KeyId::random(self.inner.clock.as_ref(), self.inner.entropy.as_ref());
            let id = self.id_of(&format!("msg_{random}"))?;
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
