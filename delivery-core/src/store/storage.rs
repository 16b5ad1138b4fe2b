//! What a store implements.

use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Attempt, Inbox, KeyQuery, LostKeys, Page, Records, Requests, SignIns, StoreError, Use, UseId};
use crate::key::{Fingerprint, Key, KeyId};
use crate::ledger::plan::{Loaded, Needs, Numbers, Writes};
use crate::ledger::{Edit, FailedMessage, Lease, LeasedMessage, MessageNumber, Route};

/// Rows of keys, purchases and messages. See the [module documentation](super) for how to implement it.
#[async_trait]
pub trait Storage: Backend {
    /// Loads the rows that `needs` names: [`Loaded::absent`], and then every row that exists. Rows may lead to others:
    /// [`Loaded::missing`] tells of them.
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
    /// neither its purchase nor its id exists. Otherwise none of them is. Writes that hold an event of a platform, or what one
    /// came to, are persisted [together](crate::ledger::InboxWrites) or not at all.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if writes that are persisted together are not, because a row of theirs has another version or
    /// exists already. Another [`StoreError`] if nothing was written; [`StoreError::Unknown`] if something may have been.
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
///
/// # What becomes of a message
///
/// | | state | due | attempts | token | route | queued at |
/// |---|---|---|---|---|---|---|
/// | queued by [`NewMessage`](crate::ledger::NewMessage) | waits | `at` | 0 | 0 | none | `at` |
/// | claimed | leased | end of the lease | + 1 | + 1 | | at most `now` |
/// | completed: `Sent` | sent | | | + 1 | none | |
/// | `Retry` | waits | its `due` | | + 1 | its `route` | |
/// | `Postpone` | waits | its `due` | - 1 | + 1 | none | |
/// | `Release` | waits | queued at | - 1 | + 1 | none | |
/// | `Fail` | failed | | | + 1 | its `route` | |
/// | retried: had failed | waits | `now` | 0 | | none | `now` |
/// | made due by `retry_messages`: waited with a route | waits | `now` | | | none | |
///
/// An empty cell stays as it is. A message that is leased waits again when its lease ends, at that time.
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

    /// Keys that match `query`, by descending id: an id begins with the time at which it was made.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError>;

    /// Leases up to `limit` messages that are due at `now`, by due time and then by number, until `lease_until`. A leased
    /// message is given to nobody else until its lease ends or it is completed. Each claim counts as an attempt, and has the
    /// next token: both are durable before this returns.
    ///
    /// Several servers' clocks differ: a store that has a clock of its own corrects the times of its callers by it. A time
    /// that no clock should have written delays no message: one that is due more than [`MAX_RETRY_DELAY`](super::MAX_RETRY_DELAY) after
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
    /// [`StoreError`] if some leases were possibly not extended.
    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError>;

    /// Messages that failed for good, by the time in their [`Outcome::Fail`](crate::ledger::Outcome::Fail) and then by number, at most
    /// `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError>;

    /// Makes a failed message due at the time of `edit`, as if it were queued then, and enters that into the audit log. Returns
    /// whether there was such a message.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the message was possibly not made due.
    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError>;

    /// Makes messages due at `now` that failed by another route than `route`, or by any if that is `None`: those that failed
    /// for good, as if they were queued now, and those that wait for their next attempt and have a route. Returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some were possibly not made due.
    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError>;

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

    /// What a shop's desk and the platforms need, if the store keeps that. Without it the desk has no lists and nobody signs in,
    /// events of platforms are answered 404, buyers cannot ask for lost keys, and each fetch counts, whatever its
    /// `Idempotency-Key` says.
    fn office(&self) -> Option<&dyn Office>;

    /// Succeeds if the store can answer: what a readiness probe asks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes what is under way and closes the store; afterwards every method fails. Called at shutdown.
    async fn close(&self);
}

/// What only some stores keep: events of commerce platforms, requests that may be repeated, lists and figures, sign-ins, and
/// requests of buyers who lost their keys. Whoever implements the five traits has it.
pub trait Office: Inbox + Requests + Records + SignIns + LostKeys {}

impl<S: Inbox + Requests + Records + SignIns + LostKeys> Office for S {}
