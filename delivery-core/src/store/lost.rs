//! Buyers who have lost their keys: what they ask, until it is answered.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::StoreError;
use crate::email::Email;
use crate::ledger::MessageId;

/// How long an address gets no second list of its keys.
pub const LOST_PAUSE: TimeDelta = TimeDelta::hours(1);

/// Requests of buyers who have lost their keys, for stores that keep them.
#[async_trait]
pub trait LostKeys: Send + Sync {
    /// Keeps a request, durably. It takes the same time for every address: whether it has keys is looked up
    /// [later](Self::answer_lost).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it was possibly not kept.
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError>;

    /// Answers the oldest requests, at most `scan.limit`, each in one commit with its deletion, however many servers do the same.
    /// Where the address has a key that is not revoked, compared without regard to case, an e-mail of the kind
    /// [`Lost`](crate::ledger::MessageKind::Lost) about the newest of them is queued, unless one was queued for a key of the address
    /// within [`LOST_PAUSE`] before `scan.now`. It goes to the address that the key has. Returns how many requests it took.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if none was answered.
    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError>;
}

/// A look at what buyers ask.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks builds it")]
pub struct LostScan {
    /// The time.
    pub now: DateTime<Utc>,
    /// How many requests at most.
    pub limit: usize,
    /// What the names of the e-mails end with: the domain of their sender.
    pub domain: String,
}

impl LostScan {
    /// The name of the e-mail that answers a request: the same whoever queues it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if the domain is none.
    pub fn name(&self, number: i64) -> Result<MessageId, StoreError> {
        let name = MessageId::new(format!("lost-{number}-{}@{}", self.now.timestamp_millis(), self.domain));
        name.map_err(|error| StoreError::corrupt_because("a sender without a domain", error))
    }
}
