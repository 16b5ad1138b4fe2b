//! The traits that a store implements.

use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{
    Aliases, Attempt, Inbox, KeyQuery, LostKeys, Page, PlatformSecrets, Records, Requests, SignIns, StoreError, Use,
    UseId,
};
use crate::key::{Fingerprint, Key, KeyId};
use crate::ledger::plan::{Loaded, Needs, Numbers, Writes};
use crate::ledger::{Edit, FailedMessage, Lease, LeasedMessage, MessageNumber, Route};

/// Storage for the rows of keys, purchases and messages. The [module documentation](super) explains how to implement
/// it.
///
/// # To ensure correctness
///
/// * Write the rows of a key together or not at all, and only if the key's row still has the version that was loaded.
/// * Never give a purchase a second key, even if many calls run at the same time. Report a conflict instead.
/// * Return only when what was written survives a crash.
/// * Never hand out a row number twice, not even after a restart.
#[async_trait]
pub trait Storage: Backend {
    /// Loads the rows that `needs` names. An implementation starts with [`Loaded::absent`] and adds every row that
    /// exists. The added rows may refer to further rows. [`Loaded::missing`] returns these, and the implementation
    /// loads them too.
    ///
    /// On [`Attempt::Optimistic`], rows may come from a cache, and purchases may be assumed absent without a query.
    /// This is safe, because persisting detects if a row has changed or a purchase exists. On later attempts all rows
    /// must be read from the database. A store whose rows have versions need not lock them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the rows cannot be read.
    async fn load(&self, needs: &Needs, attempt: Attempt) -> Result<Loaded, StoreError>;

    /// Reserves at least `count` row numbers that are unused and will not be handed out again. Later calls on the same
    /// server return greater numbers.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no numbers could be reserved.
    async fn numbers(&self, count: i64) -> Result<Numbers, StoreError>;

    /// Persists `writes`, durably. Returns one entry for each of [`Writes::keys`], in the same order.
    ///
    /// The rows of a key are written together or not at all. An existing key is written only if its row still has the
    /// version that was loaded. A new key is written only if neither its purchase nor its id exists. A new key that
    /// [replaces another key](crate::ledger::KeyWrite::heir_of) is an exception: its purchase, if any, must still
    /// belong to the replaced key.
    ///
    /// [Atomic](Writes::is_atomic) writes, such as those of [platform events](crate::ledger::InboxWrites), are
    /// persisted entirely or not at all.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if atomic writes were not persisted because one of their rows has another version or
    /// already exists. [`StoreError::Unknown`] if something may have been written. Another [`StoreError`] if nothing
    /// was written.
    async fn persist(&self, writes: &Writes) -> Result<Vec<Persisted>, StoreError>;
}

/// Whether the writes of one key were persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "written or not")]
pub enum Persisted {
    /// The writes are durable.
    Written,
    /// Nothing was written. The row of an existing key no longer has the version that was loaded, or the purchase or
    /// the id of a new key already exists.
    Conflict,
}

/// What a store does besides loading and persisting: it registers signing secrets, searches, leases messages and
/// closes.
///
/// # What becomes of a message
///
/// | | state | due | attempts | token | route | queued at |
/// |---|---|---|---|---|---|---|
/// | queued by [`NewMessage`](crate::ledger::NewMessage) | waits | `at` | 0 | 0 | none | `at` |
/// | claimed | leased | end of the lease | + 1 | + 1 | | at most `now` |
/// | completed: `Sent` | sent | its `at` | | + 1 | none | |
/// | `Retry` | waits | its `due` | | + 1 | its `route` | |
/// | `Postpone` | waits | its `due` | - 1 | + 1 | none | |
/// | `Release` | waits | queued at | - 1 | + 1 | none | |
/// | `Fail` | failed | its `at` | | + 1 | its `route` | |
/// | failed, then retried | waits | `now` | 0 | | none | `now` |
/// | waited with a route, then made due by `retry_messages` | waits | `now` | | | none | |
///
/// The token is the fencing token of the message's [`Lease`]. The [`Route`] is a digest of the sender and the mail
/// server's settings with which the last attempt failed. An empty cell means that the value does not change. "Its"
/// refers to the outcome in the first column. If a lease ends before its message is completed, the message waits again
/// and is due at the end of the lease.
///
/// # To ensure correctness
///
/// * Lease a message to one caller at a time, and increase its token with each lease.
/// * Return only when what was changed survives a crash.
/// * Compare times only with times that the caller gives. A store with a clock of its own corrects the caller's times
///   by that clock.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// Registers the fingerprints of the secrets that sign keys of this store, if [`Fingerprint::accepts`] accepts
    /// them. Writes nothing if all of them are already registered.
    ///
    /// # Errors
    ///
    /// [`StoreError::ForeignSecret`] or [`StoreError::RetiredSecret`] if the keyring is not accepted; nothing is
    /// registered then.
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError>;

    /// Returns the keys that match `query`, by descending id. This order is newest first, because an id begins with the
    /// time at which it was made.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError>;

    /// Leases up to `limit` messages that are due at `now`. They are ordered by the time at which they are due, then by
    /// number. The leases end at `lease_until`. Nobody else gets a leased message until its lease ends or the message
    /// is completed. Each claim counts as an attempt and gives the message its next token; both are durable before this
    /// returns.
    ///
    /// Clocks of several servers differ, so a store with a clock of its own corrects its callers' times by that clock.
    /// Times that only a wrong clock can have written do not delay messages:
    ///
    /// * A message that is due more than [`MAX_RETRY_DELAY`](super::MAX_RETRY_DELAY) after `now` is due at once.
    /// * A message whose lease ends more than [`LONGEST_LEASE`](super::LONGEST_LEASE) after `now` is due at once.
    /// * A message that was queued after `now` counts as queued at `now`.
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

    /// Extends `leases` until `lease_until`. Leaves out messages that were completed or leased again in the meantime.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some leases may not have been extended.
    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError>;

    /// Returns at most `limit` messages that failed for good, in the order in which they failed. That is the order of
    /// the times in their [`Outcome::Fail`](crate::ledger::Outcome::Fail), then of their numbers.
    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError>;

    /// Retries a message that failed for good, as if it were a new one. The time of `edit` becomes the time at which
    /// the message was queued and is due. Adds an entry about this to the audit log. Returns whether there was such a
    /// message.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change may not have been saved.
    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError>;

    /// Retries failed messages: makes them due at `now` and returns how many messages were made due. These messages are
    /// retried:
    ///
    /// * messages that failed for good; they then count as queued at `now`
    /// * messages that wait for another attempt and have a route. The [`Route`] identifies the sender and the mail
    ///   server with which the last attempt failed.
    ///
    /// If `route` is given, messages that failed by this route are left out.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some messages may not have been made due.
    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Returns a page of a key's uses, newest first, without those that were pruned. The page has at most `limit` uses.
    /// If `before` is given, the page has only uses that are older than that use.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError>;

    /// Deletes use records older than `before`. Returns how many records were deleted. The counts of uses do not
    /// change. A key's history then lists only uses that are newer than the newest deleted use of this key.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these records may not have been deleted.
    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Returns the part of the store that the desk (the seller's web pages) and platform events need; `None` if the
    /// store does not have this part. Without this part:
    ///
    /// * The desk has no lists, and nobody can sign in.
    /// * Platform events are answered 404.
    /// * Buyers cannot ask for lost keys.
    /// * The text that an imported key had before its import is not recognized.
    /// * Every fetch counts, even if it repeats an `Idempotency-Key`.
    fn office(&self) -> Option<&dyn Office>;

    /// Returns the part of the store that works inside transactions of the host application; `None` if the store does
    /// not have this part.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn host_transactions(&self) -> Option<&dyn super::HostTransactions> {
        None
    }

    /// Succeeds if the store can answer. Readiness probes call this.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot answer.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes the operations under way and closes the store; afterwards every method fails. Called at shutdown.
    async fn close(&self);
}

/// The part of a store that only some stores have: platform events, requests with an `Idempotency-Key`, lists and
/// statistics, sign-ins, requests of buyers who lost their keys, secrets of platforms, and aliases of imported keys.
/// Each of these seven subjects has a trait. Every type that implements the seven traits implements this one.
///
/// The following parts of a store are optional too, but do not belong to `Office`:
///
/// * `Backend::host_transactions`: a store of any kind may have an office, but a transaction of the host application is
///   always one of SQLite or PostgreSQL.
/// * `CatalogEditor::in_host_transactions`: it adds products, and the catalog of a service may be another store than
///   the one that has the office.
/// * [`CatalogEditor::files`](super::CatalogEditor::files): the rows of files belong to products, so they too are in
///   the store of the catalog.
///
/// # To ensure correctness
///
/// * Implement the seven traits on the same rows: what one of them writes, the others see at once.
pub trait Office: Inbox + Requests + Records + SignIns + LostKeys + PlatformSecrets + Aliases {}

impl<S: Inbox + Requests + Records + SignIns + LostKeys + PlatformSecrets + Aliases> Office for S {}
