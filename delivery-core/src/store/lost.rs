//! Requests of buyers who have lost their keys, stored until they are answered.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::StoreError;
use crate::email::Email;
use crate::ledger::MessageId;

/// How long an address gets no second e-mail with its lost keys.
pub const LOST_PAUSE: TimeDelta = TimeDelta::hours(1);

/// Requests of buyers who have lost their keys, for stores that keep them.
///
/// # To ensure correctness
///
/// * Take the same time for every address.
/// * Answer a request and delete it in one commit, also if several servers call at once.
#[async_trait]
pub trait LostKeys: Send + Sync {
    /// Stores a request, durably. This takes the same time for every address, because whether the address has keys is
    /// looked up [later](Self::answer_lost).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the request may not have been saved.
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError>;

    /// Answers the oldest requests, at most `scan.limit`. Each request is answered and deleted in one commit, also if
    /// several servers call this at once. If the address, compared without regard to case, has a key that is not
    /// revoked, an e-mail of the kind [`Lost`](crate::ledger::MessageKind::Lost) about the newest such key is queued to the
    /// address in that key. No e-mail is queued if one was queued for a key of the address within [`LOST_PAUSE`] before
    /// `scan.now`. Returns how many requests were deleted.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no request was answered.
    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError>;
}

/// The parameters of [`LostKeys::answer_lost`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks builds it")]
pub struct LostScan {
    /// The current time.
    pub now: DateTime<Utc>,
    /// The most requests to answer.
    pub limit: usize,
    /// The sender's domain, with which the `Message-ID`s of the e-mails end.
    pub domain: String,
}

impl LostScan {
    /// Returns the `Message-ID` of the e-mail that answers request `number` at the time `now`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if the domain does not make a valid `Message-ID`.
    pub fn name(&self, number: i64) -> Result<MessageId, StoreError> {
        let name = MessageId::new(format!("lost-{number}-{}@{}", self.now.timestamp_millis(), self.domain));
        name.map_err(|error| StoreError::corrupt_because("a sender without a domain", error))
    }
}
