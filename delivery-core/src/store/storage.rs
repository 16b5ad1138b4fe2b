//! What a store implements.

use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::plan::{Loaded, Needs, Numbers, Writes};
use super::{
    Attempt, FailedMessage, KeyQuery, Lease, LeasedMessage, MessageNumber, Page, Route, StoreError, Use, UseId,
};
use crate::key::{Fingerprint, Key, KeyId};

/// Rows of keys, purchases and messages. See the [module documentation](super) for how to implement it.
#[async_trait]
pub trait Storage: Backend {
    /// Loads the rows that `needs` names: [`Loaded::absent`], and then every row that exists.
    ///
    /// On [`Attempt::Optimistic`] rows may come from a cache, and purchases may be taken for absent without a look: persisting
    /// tells. Otherwise the rows are read. A store whose rows have versions need not lock them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the rows cannot be read.
    async fn load(&self, needs: &Needs, attempt: Attempt) -> Result<Loaded, StoreError>;

    /// At least `count` numbers that no row has, and none will get from another call. Those of a later call to the same
    /// server are greater.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if there are none to be had.
    async fn numbers(&self, count: i64) -> Result<Numbers, StoreError>;

    /// Persists `writes`, durably. Returns one entry for each of [`Writes::keys`].
    ///
    /// The rows of a key are written together, if its row still has the version that was loaded and, for a new key, if
    /// neither its purchase nor its id exists. Otherwise none of them is.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was written; [`StoreError::Unknown`] if something may have been.
    async fn persist(&self, writes: &Writes) -> Result<Vec<Persisted>, StoreError>;
}

/// What became of a key's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "written or not")]
pub enum Persisted {
    /// They are durable.
    Written,
    /// The row was not the version that was loaded, or the purchase has a key meanwhile. Nothing of them was written.
    Conflict,
}

/// What a store does beside loading and persisting: it searches, leases messages, starts and ends.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// Registers the secrets that keys of this store are signed with, by their fingerprints, if [`Fingerprint::accepts`]
    /// accepts them. Writes nothing if all of them are registered.
    ///
    /// # Errors
    ///
    /// [`StoreError::ForeignSecret`] or [`StoreError::RetiredSecret`] for a keyring that is not accepted; nothing is
    /// registered then.
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError>;

    /// Keys that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError>;

    /// Leases up to `limit` messages that are due at `now`, oldest first, until `lease_until`. A leased message is given to
    /// nobody else until its lease ends or it is completed. Each claim counts as an attempt.
    ///
    /// Several servers' clocks differ: a store that has a clock of its own corrects the times of its callers by it. A time
    /// that no clock should have written delays no message: one that is due more than [`FARTHEST`](super::FARTHEST) after
    /// `now`, or leased for longer than [`LONGEST_LEASE`](super::LONGEST_LEASE), is due at once, and one that was queued after
    /// `now` counts as queued now.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was leased.
    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError>;

    /// Extends `leases` until `lease_until`. A message that was completed or went to somebody else stays as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the leases may end before.
    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError>;

    /// Messages that failed for good, in the order in which they failed, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError>;

    /// Makes a failed message due at `now`, with its attempts counted anew. Returns whether there was such a message.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the message may not be due.
    async fn retry_message(&self, message: MessageNumber, now: DateTime<Utc>) -> Result<bool, StoreError>;

    /// Makes messages due at `now` that failed by another route than `route`, or by any if that is `None`: those that failed
    /// for good, with their attempts counted anew, and those that wait for their next attempt, unless a mail server may have
    /// taken them. Returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some may not be due.
    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// The records of uses, if the store keeps them.
    fn uses(&self) -> Option<&dyn History>;

    /// Succeeds if the store can answer: what a readiness probe asks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes what is under way and closes the store; afterwards every method fails. Called at shutdown.
    async fn close(&self);
}

/// Records of uses: when each was.
#[async_trait]
pub trait History: Send + Sync {
    /// The uses of a key, newest first, as far as they were not pruned; `before` continues a page.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError>;

    /// Deletes use records older than `before`, and returns how many; counts are unaffected. A key's history then ends at its
    /// newest deleted use.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}
