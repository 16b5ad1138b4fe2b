//! Requests of buyers who have lost their keys, stored until they are answered.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::StoreError;
use crate::email::Email;
use crate::ledger::MessageId;

/// After an e-mail with lost keys, the same address gets no further such e-mail for this long.
pub const LOST_PAUSE: TimeDelta = TimeDelta::hours(1);

/// Requests of buyers who have lost their keys, for stores that save such requests.
///
/// # To ensure correctness
///
/// * In [`ask`](Self::ask), take the same time for every address, so that nobody can find out from the time whether an
///   address has keys.
/// * Answer a request and delete it in one commit, even if several servers do so at once.
#[async_trait]
pub trait LostKeys: Send + Sync {
    /// Stores a request, durably. This takes the same time for every address, because whether the address has keys is
    /// looked up [later](Self::answer_lost).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the request may not have been saved.
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError>;

    /// Answers the oldest requests, at most `scan.limit`. Returns how many requests were answered. Each request is
    /// answered and deleted in one commit, even if several servers call this at once.
    ///
    /// To answer a request, a store looks for the newest key of the address among those that are not revoked. It queues
    /// an e-mail of the kind [`Lost`](crate::ledger::MessageKind::Lost) about this key, to the address in the key.
    /// Addresses are compared without regard to case. No e-mail is queued if there is no such key, or if such an e-mail
    /// was already queued for a key of the address within [`LOST_PAUSE`] before or after `scan.now`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no request was answered.
    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError>;
}

/// The parameters of [`LostKeys::answer_lost`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct LostScan {
    /// The current time.
    pub now: DateTime<Utc>,
    /// The maximum number of requests that one call answers.
    pub limit: usize,
    /// The domain of the sender's address. The `Message-ID`s of the e-mails end with it.
    pub domain: String,
}

impl LostScan {
    /// Returns the `Message-ID` of the e-mail that answers the request with row number `number`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if the domain does not make a valid `Message-ID`.
    pub fn name(&self, number: i64) -> Result<MessageId, StoreError> {
        let name = MessageId::new(format!("lost-{number}-{}@{}", self.now.timestamp_millis(), self.domain));
        name.map_err(|error| StoreError::corrupt_because("a sender without a domain", error))
    }
}
