//! The ledger: issuing, finding and changing keys. The rules for this are written once, for every store.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::StoreError;
use super::attempt::Attempt;
use super::storage::{Backend, Persisted, Storage};
use crate::clock::{Clock, SystemClock};
use crate::key::{Change, Key, KeyId};
use crate::ledger::operation::{needs, plan};
use crate::ledger::plan::{Needs, Numbers};
use crate::ledger::{
    Answer, ChangeKey, CompleteMessage, Fetch, FetchProduct, Fetched, InboundEvent, Issue, Lease, NewSale, Notice,
    Operation, Outcome, Received, Refused, Resend, ResendKey, RotateKey, Successor,
};

/// A store of keys, orders and messages. Changes that belong together are one commit.
///
/// A ledger executes [operations](Operation) and finds keys. All other methods are provided: each submits an operation
/// and returns its answer. Do not override them.
///
/// Every [`Storage`] is a ledger. `SqliteStore` and `PostgresStore` are ledgers that commit the operations of many
/// callers at once.
///
/// # To ensure correctness
///
/// * Answer an operation only when everything that it wrote is durable. A store of your own implements [`Storage`]
///   instead of this trait, and thereby becomes a ledger.
#[async_trait]
pub trait Ledger: Backend {
    /// Executes an operation. Returns its answer once everything that it wrote is durable. Operations on the same key
    /// are applied one after another. `SqliteStore` and `PostgresStore` complete a submitted operation even if the
    /// caller stops waiting.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was written. After [`StoreError::Unknown`] the operation may have been written.
    async fn submit(&self, operation: Operation) -> Result<Answer, StoreError>;

    /// Returns the key as the last acknowledged change left it; `None` if the key is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError>;

    /// Issues a key. One commit writes the key, its purchase (the order and the product), and its messages, which are
    /// due at once. If a person issues the key by hand, the same commit writes the audit entry. If the purchase already
    /// has a key, returns that key and writes nothing, not even a message.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if another key has the sale's [alias](crate::ledger::Imported::alias), and another
    /// [`StoreError`] if nothing was issued for another reason. After [`StoreError::Unknown`] the key may have been
    /// issued; issuing it again for the same order is safe.
    async fn issue(&self, sale: NewSale) -> Result<Issue, StoreError> {
        self.submit(Operation::Issue(Box::new(sale))).await?.issued()
    }

    /// Changes a key: applies `change` by [`Key::apply`]. Returns the changed key once the change is durable. If the
    /// change is refused, returns the refusal with the unchanged key. Returns `None` if the key is unknown. Changes of
    /// one key are applied one after another. `messages` are queued in the same commit, unless the change is refused or
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the key was not changed. After [`StoreError::Unknown`] the key may have been changed.
    async fn change(
        &self,
        id: KeyId,
        change: Change,
        messages: Vec<Notice>,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        self.submit(Operation::Change(ChangeKey { key: id, change, messages })).await?.changed()
    }

    /// Sends a key to its buyer again. If [`Resend::email`] is given, also corrects the buyer's address. Both are one
    /// commit, with their audit entries. Returns the key, or the refusal if the key is revoked or its buyer was erased.
    /// Returns `None` if the key is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no message was queued. After [`StoreError::Unknown`] the message may have been queued.
    async fn resend(&self, id: KeyId, resend: Resend) -> Result<Option<Result<Key, Refused>>, StoreError> {
        self.submit(Operation::Resend(Box::new(ResendKey { key: id, resend }))).await?.changed()
    }

    /// Replaces the key `id`, whose text leaked: revokes it and issues its successor by [`Key::rotate`], in one commit
    /// with audit entries and messages. From then on the purchase belongs to the successor. Returns the new successor,
    /// or the existing one if an earlier call has rotated the key. Returns the refusal if the key may not be rotated,
    /// and `None` if the key is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed. After [`StoreError::Unknown`] the key may have been rotated; rotating it
    /// again then returns its successor.
    async fn rotate(&self, id: KeyId, successor: Successor) -> Result<Option<Result<Issue, Refused>>, StoreError> {
        self.submit(Operation::Rotate(Box::new(RotateKey { key: id, successor }))).await?.rotated()
    }

    /// Uses a key and counts the use. Within [24 hours](crate::ledger::IDEMPOTENCY_WINDOW) after a request, its first
    /// [ten](crate::ledger::MOST_REPEATS) repetitions are answered without counting a use, even if the key has expired
    /// or was used up in the meantime. The count and the record of the request are one commit. Requires a store with an
    /// [`office`](Backend::office), the optional part that saves requests.
    ///
    /// Returns the refusal if the key may not be used, or if the request was first made for another product. Returns
    /// `None` if the key is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no use was counted. After [`StoreError::Unknown`] the use may have been counted; repeating the
    /// same request is safe.
    async fn fetch(&self, id: KeyId, fetch: Fetch) -> Result<Option<Result<Fetched, Refused>>, StoreError> {
        self.submit(Operation::Fetch(FetchProduct { key: id, fetch })).await?.fetched()
    }

    /// Stores an event of a commerce platform and handles it as [`step`](InboundEvent::step) says, in one commit.
    /// Without a step, the event is only stored. Returns the result.
    ///
    /// An event that is already in the inbox is changed only by [a retry](InboundEvent::is_retry). A retry applies the
    /// event if it is not done yet. If a person asks for the retry, it also applies an event that is done but [can
    /// still be applied](crate::ledger::InboxEvent::can_be_applied), for example because it was only dismissed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was stored. After [`StoreError::Unknown`] the event may have been stored; receiving it
    /// again is safe.
    async fn receive(&self, inbound: InboundEvent) -> Result<Received, StoreError> {
        self.submit(Operation::Receive(Box::new(inbound))).await?.received().map(|received| *received)
    }

    /// Ends a lease and records `outcome` for the leased message. Changes nothing if the message was leased again in
    /// the meantime.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the outcome may not have been saved; the lease then runs out and the message is leased again.
    async fn complete_message(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.submit(Operation::Complete(CompleteMessage { lease, outcome })).await.map(drop)
    }
}

#[async_trait]
impl<S: Storage> Ledger for S {
    async fn submit(&self, operation: Operation) -> Result<Answer, StoreError> {
        run(self, operation).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        let needs = Needs { keys: [id].into(), ..Needs::default() };
        let mut loaded = self.load(&needs, Attempt::Reloaded).await?;
        Ok(loaded.key(id)?.map(|row| row.key.clone()))
    }
}

/// The longest pause before an operation is attempted again, in milliseconds.
const LONGEST_PAUSE: u32 = 64;
/// How long an operation that conflicts is retried. The time begins when the operation gets the lock [`TURN`].
const PATIENCE: Duration = Duration::from_secs(5);
/// An operation holds this lock while it is retried after a conflict. If a hundred callers in this process race for a
/// key, only one of them succeeds at a time. Without this lock, each operation would be attempted up to a hundred
/// times.
static TURN: Mutex<()> = Mutex::const_new(());

/// Executes one operation: loads, plans and persists it. Retries it until it does not conflict or [`PATIENCE`] has run
/// out.
async fn run(store: &impl Storage, operation: Operation) -> Result<Answer, StoreError> {
    let operation = [operation];
    let mut attempt = Attempt::Optimistic;
    if let Some(answer) = try_once(store, &operation, attempt).await? {
        return Ok(answer);
    }
    let _turn = TURN.lock().await;
    let until = SystemClock.monotonic() + PATIENCE;
    let mut conflicts = 0;
    while SystemClock.monotonic() < until {
        attempt = attempt.next();
        if let Some(answer) = try_once(store, &operation, attempt).await? {
            return Ok(answer);
        }
        // Another process is racing for the key, or another caller in this process is at its first attempt, which does
        // not wait for `TURN`. The pauses grow and vary, so that the operations do not collide again.
        let most = 1_u32.checked_shl(conflicts).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        let pause = SystemClock.monotonic().subsec_nanos() % (most * 1000);
        tokio::time::sleep(Duration::from_micros(pause.into())).await;
        conflicts += 1;
    }
    Err(StoreError::Conflict { source: None })
}

/// Attempts an operation once. Returns `None` if it conflicts with another operation.
async fn try_once(
    store: &impl Storage,
    operation: &[Operation; 1],
    attempt: Attempt,
) -> Result<Option<Answer>, StoreError> {
    let loaded = store.load(&needs(operation), attempt).await?;
    // Yields to other tasks if Tokio's budget for this task is used up. Tests of stores rely on this to make calls
    // race.
    tokio::task::consume_budget().await;
    let [only] = operation;
    let mut numbers: Numbers = store.numbers(only.numbers()).await?;
    let plan = plan(operation, loaded, &mut numbers)?;
    let persisted = if plan.writes.is_empty() { Ok(Vec::new()) } else { store.persist(&plan.writes).await };
    if matches!(persisted, Err(StoreError::Conflict { .. })) && plan.writes.is_atomic() {
        return Ok(None);
    }
    let persisted = persisted?;
    Ok(plan.answers(|unit| persisted.get(unit) == Some(&Persisted::Written)).pop().flatten())
}
