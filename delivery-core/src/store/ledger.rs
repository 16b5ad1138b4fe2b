//! The ledger: issuing, finding and changing keys. Its semantics stand once, for every store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::attempt::Attempt;
use super::plan::{Needs, Numbers, Operation, Reply, needs, plan};
use super::storage::{Backend, Persisted, Storage};
use super::{Issue, Lease, MessageId, Outcome, Page, Refused, StoreError, Use, UseId};
use crate::clock::{Clock, SystemClock};
use crate::key::{Change, Key, KeyId, NewKey};

/// Keys, orders and messages: what is atomic together.
///
/// Every [`Storage`] is a ledger. [`SqliteStore`](super::SqliteStore) and [`PostgresStore`](super::PostgresStore) are
/// ledgers that commit many callers' operations at once.
#[async_trait]
pub trait Ledger: Backend {
    /// Issues a key. The key, the identity of its purchase and, if `message` is given, a message that is due at once are one
    /// commit. If the purchase has a key already, that key is returned and nothing is written, not even a message.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was issued. After [`StoreError::Unknown`] the key may have been issued; issuing it again for
    /// the same order is safe.
    async fn issue(&self, key: NewKey, message: Option<MessageId>) -> Result<Issue, StoreError>;

    /// The key as the last acknowledged change left it; `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError>;

    /// Applies `change` by [`Key::apply`]. Returns the key as changed, once that is durable, or the refusal with the key, which
    /// is as it was; `None` if the key is unknown. Changes to one key are applied one after another.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change did not happen. After [`StoreError::Unknown`] it may have happened.
    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refused>>, StoreError>;

    /// Ends a lease with what became of the message. A lease that went to somebody else changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the outcome may not have been kept; the lease then runs out and the message is claimed again.
    async fn complete_message(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError>;
}

impl dyn Ledger {
    /// The uses of a key, as [`History::history`](super::History::history).
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no history; another [`StoreError`] if it cannot be read.
    pub async fn history(
        &self,
        id: KeyId,
        before: Option<UseId>,
        limit: usize,
    ) -> Result<Page<Use, UseId>, StoreError> {
        self.uses().ok_or(StoreError::Unsupported)?.history(id, before, limit).await
    }

    /// Deletes old use records, as [`History::prune_history`](super::History::prune_history).
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no history; another [`StoreError`] if not all may have been deleted.
    pub async fn prune_history(&self, before: chrono::DateTime<chrono::Utc>) -> Result<u64, StoreError> {
        self.uses().ok_or(StoreError::Unsupported)?.prune_history(before).await
    }
}

#[async_trait]
impl<S: Storage> Ledger for S {
    async fn issue(&self, key: NewKey, message: Option<MessageId>) -> Result<Issue, StoreError> {
        let reply = Reply::default();
        run(self, Operation::Issue(Arc::new(key), message, reply.clone())).await?;
        reply.take()
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        let needs = Needs { keys: [id].into(), ..Needs::default() };
        let mut loaded = self.load(&needs, Attempt::Reloaded).await?;
        Ok(loaded.key(id)?.map(|row| row.key.clone()))
    }

    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refused>>, StoreError> {
        let reply = Reply::default();
        run(self, Operation::Change(id, change, reply.clone())).await?;
        reply.take()
    }

    async fn complete_message(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError> {
        run(self, Operation::Complete(lease, outcome)).await
    }
}

/// How long an operation that conflicts is tried again. Each conflict means that another operation on the same key has
/// succeeded, so a hundred callers that race for a key need up to a hundred attempts each.
const PATIENCE: Duration = Duration::from_secs(5);

/// Loads, plans and persists one operation, until it does not conflict.
async fn run(store: &impl Storage, operation: Operation) -> Result<(), StoreError> {
    let operation = [operation];
    let needs = needs(&operation);
    let mut attempt = Attempt::Optimistic;
    let until = SystemClock.monotonic() + PATIENCE;
    while SystemClock.monotonic() < until {
        let loaded = store.load(&needs, attempt).await?;
        let mut numbers: Numbers = store.numbers(2).await?;
        let plan = plan(&operation, loaded, &mut numbers)?;
        let persisted = if plan.writes.is_empty() { Vec::new() } else { store.persist(&plan.writes).await? };
        if plan.answer(|unit| persisted.get(unit) == Some(&Persisted::Written)) == [true] {
            return Ok(());
        }
        attempt = attempt.next();
        tokio::task::yield_now().await;
    }
    Err(StoreError::Conflict { source: None })
}
