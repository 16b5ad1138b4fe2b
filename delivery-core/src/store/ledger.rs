//! The ledger: issuing, finding and changing keys. Its semantics stand once, for every store.

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

/// Keys, orders and messages: what is atomic together.
///
/// A ledger answers [operations](Operation) and finds keys. The other methods submit an operation and return its answer; no
/// ledger writes them anew.
///
/// Every [`Storage`] is a ledger. `SqliteStore` and `PostgresStore` are
/// ledgers that commit many callers' operations at once.
#[async_trait]
pub trait Ledger: Backend {
    /// Does what an operation asks for. Its answer is given once what it wrote is durable. An operation that was submitted
    /// completes even if the caller stops waiting. Operations on one key are applied one after another.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was written. After [`StoreError::Unknown`] it may have been.
    async fn submit(&self, operation: Operation) -> Result<Answer, StoreError>;

    /// The key as the last acknowledged change left it; `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError>;

    /// Issues a key. The key, the identity of its purchase, its messages, which are due at once, and the audit entry of whoever
    /// issues it by hand are one commit. If the purchase has a key already, that key is returned and nothing is written, not
    /// even a message.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was issued. After [`StoreError::Unknown`] the key may have been issued; issuing it again for
    /// the same order is safe.
    async fn issue(&self, sale: NewSale) -> Result<Issue, StoreError> {
        match self.submit(Operation::Issue(Box::new(sale))).await? {
            Answer::Issued(issue) => Ok(issue),
            _ => Err(of_another_operation()),
        }
    }

    /// Applies `change` by [`Key::apply`]. Returns the key as changed, once that is durable, or the refusal with the key, which
    /// is as it was; `None` if the key is unknown. Changes to one key are applied one after another. `messages` are queued in
    /// the same commit, and not if the change is refused or changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change did not happen. After [`StoreError::Unknown`] it may have happened.
    async fn change(
        &self,
        id: KeyId,
        change: Change,
        messages: Vec<Notice>,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        match self.submit(Operation::Change(ChangeKey { key: id, change, messages })).await? {
            Answer::Changed(changed) => Ok(changed),
            _ => Err(of_another_operation()),
        }
    }

    /// Sends a key to its buyer again, to another address if it was wrong: both are one commit, with their audit entries. Returns the
    /// key; or the refusal if it is revoked. `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was queued. After [`StoreError::Unknown`] it may have been.
    async fn resend(&self, id: KeyId, resend: Resend) -> Result<Option<Result<Key, Refused>>, StoreError> {
        match self.submit(Operation::Resend(Box::new(ResendKey { key: id, resend }))).await? {
            Answer::Changed(changed) => Ok(changed),
            _ => Err(of_another_operation()),
        }
    }

    /// Withdraws the key `id`, whose text leaked, and issues its successor by [`Key::rotate`], in one commit with audit entries
    /// and messages. The purchase belongs to the successor from then on. Returns the successor; the one that it has already, if
    /// it was rotated before; or the refusal. `None` if the key is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed. After [`StoreError::Unknown`] it may have been; rotating it again answers with the
    /// successor that it has then.
    async fn rotate(&self, id: KeyId, successor: Successor) -> Result<Option<Result<Issue, Refused>>, StoreError> {
        match self.submit(Operation::Rotate(Box::new(RotateKey { key: id, successor }))).await? {
            Answer::Rotated(rotated) => Ok(rotated),
            _ => Err(of_another_operation()),
        }
    }

    /// Uses a key, unless the same request has used it: within [24 hours](crate::ledger::IDEMPOTENCY_WINDOW) the next [ten](crate::ledger::MOST_REPEATS) of the same name
    /// are answered like the first, and count nothing, also if the key is expired or used up meanwhile. The count and the request
    /// are one commit. Returns the refusal if the key may not be used, or if the request was about another product; `None` if the
    /// key is unknown. Only for a store that has an [`office`](Backend::office).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was counted. After [`StoreError::Unknown`] it may have been; the same request is safe.
    async fn fetch(&self, id: KeyId, fetch: Fetch) -> Result<Option<Result<Fetched, Refused>>, StoreError> {
        match self.submit(Operation::Fetch(FetchProduct { key: id, fetch })).await? {
            Answer::Fetched(fetched) => Ok(fetched),
            _ => Err(of_another_operation()),
        }
    }

    /// Keeps an event of a commerce platform, applies it, and says what it came to, in one commit. An event that the inbox has
    /// changes nothing, unless it waits there and the call says that it [is a retry](InboundEvent::is_retry).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was kept. After [`StoreError::Unknown`] it may have been; receiving it again is safe.
    async fn receive(&self, receipt: InboundEvent) -> Result<Received, StoreError> {
        match self.submit(Operation::Receive(Box::new(receipt))).await? {
            Answer::Received(received) => Ok(*received),
            _ => Err(of_another_operation()),
        }
    }

    /// Ends a lease with what became of the message. A lease that went to somebody else changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the outcome may not have been kept; the lease then runs out and the message is claimed again.
    async fn complete_message(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.submit(Operation::Complete(CompleteMessage { lease, outcome })).await.map(drop)
    }
}

/// A fault of the ledger.
fn of_another_operation() -> StoreError {
    StoreError::corrupt("the answer of another operation")
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

/// The longest pause before another attempt, in milliseconds.
const LONGEST_PAUSE: u32 = 64;
/// How long an operation that conflicts is tried again, once it is its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Held by an operation that has conflicted. Of a hundred callers in this process that race for a key, each would otherwise be
/// tried up to a hundred times, for only one of them succeeds at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// Loads, plans and persists one operation, until it does not conflict.
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
        // Another process races for the key. Pauses that grow and differ, so that the two do not meet again.
        let most = 1_u32.checked_shl(conflicts).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        let pause = SystemClock.monotonic().subsec_nanos() % (most * 1000);
        tokio::time::sleep(Duration::from_micros(pause.into())).await;
        conflicts += 1;
    }
    Err(StoreError::Conflict { source: None })
}

/// Tries an operation. `None` if it conflicts with another.
async fn try_once(
    store: &impl Storage,
    operation: &[Operation; 1],
    attempt: Attempt,
) -> Result<Option<Answer>, StoreError> {
    let loaded = store.load(&needs(operation), attempt).await?;
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
