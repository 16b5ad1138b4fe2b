//! Rows that another transaction has locked. For example, an operator runs `SELECT … FOR UPDATE`, or a server freezes
//! in the middle of a transaction.
//!
//! The writer waits for a lock for a tenth of a second. Then it asks the database which keys of its batch are locked.
//! Operations on these keys are deferred until the locks are released. All other operations go on without waiting.
//!
//! An order that another transaction is inserting has no row yet, so the database cannot be asked about it. Instead the
//! batch is halved repeatedly, until an operation that is tried alone meets the lock. The order of this operation then
//! counts as locked for a second, and other operations that need the order are deferred too.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::load::ask;
use super::session::Session;
use crate::key::KeyId;
use crate::ledger::operation::{Operation, Subject};
use crate::ledger::plan::PurchaseId;
use crate::ledger::{EventId, MessageNumber};
use crate::store::StoreError;
use crate::store::sql::rows;

/// How often to ask whether keys are still locked.
const QUERY_INTERVAL: Duration = Duration::from_millis(20);
/// How long an order, a message or an event counts as locked after an operation has met a lock on it.
const LOCKED: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct LockedRows {
    keys: HashSet<KeyId>,
    /// When the database was last asked which of `keys` are locked; `None` if a batch has added keys since.
    looked: Option<Duration>,
    /// Orders, messages and events, each with the time until which it counts as locked.
    others: HashMap<Other, Duration>,
}

#[derive(PartialEq, Eq, Hash)]
enum Other {
    Purchase(PurchaseId),
    Message(MessageNumber),
    Event(EventId),
}

impl Other {
    fn of(operation: &Operation) -> Option<Self> {
        match operation.subject() {
            Subject::NewKey(new) => PurchaseId::of(new).map(Self::Purchase),
            Subject::Message(message) => Some(Self::Message(message)),
            Subject::Event(event) => Some(Self::Event(event.clone())),
            Subject::Key(_) => None,
        }
    }
}

impl LockedRows {
    pub(super) fn has_key(&self, id: &KeyId) -> bool {
        self.keys.contains(id)
    }

    pub(super) fn has_other(&self, operation: &Operation, now: Duration) -> bool {
        !self.others.is_empty()
            && Other::of(operation).and_then(|other| self.others.get(&other)).is_some_and(|until| now < *until)
    }

    /// Records that an operation that was tried alone met a lock. Its order, message or event counts as locked for
    /// [`LOCKED`].
    pub(super) fn add(&mut self, operation: &Operation, now: Duration) {
        self.others.retain(|_, until| now < *until);
        self.others.extend(Other::of(operation).map(|other| (other, now + LOCKED)));
    }

    /// Records that a batch with these keys met a lock, so each of them may be locked.
    pub(super) fn suspect(&mut self, keys: impl Iterator<Item = KeyId>) {
        self.keys.extend(keys);
        self.looked = None;
    }

    /// Returns the keys to ask the database about. Returns `None` if there are none, or if the database was asked less
    /// than [`QUERY_INTERVAL`] ago.
    pub(super) fn due(&self, now: Duration) -> Option<HashSet<KeyId>> {
        let due = self.looked.is_none_or(|looked| now.saturating_sub(looked) >= QUERY_INTERVAL);
        (due && !self.keys.is_empty()).then(|| self.keys.clone())
    }

    /// Replaces the suspected keys by those that the database has reported as locked.
    pub(super) fn keep(&mut self, locked: HashSet<KeyId>, now: Duration) {
        (self.keys, self.looked) = (locked, Some(now));
    }

    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }
}

/// Returns which of these keys another transaction has locked at this moment.
pub(super) async fn locked(session: &mut Session<'_>, ids: &HashSet<KeyId>) -> Result<HashSet<KeyId>, StoreError> {
    const LOCKED: &str = "WITH free AS (SELECT number FROM delivery_key WHERE id = ANY($1) FOR UPDATE SKIP LOCKED) \
        SELECT k.id FROM delivery_key k WHERE k.id = ANY($1) AND NOT EXISTS (SELECT FROM free f WHERE f.number = k.number)";
    ask(session, LOCKED, ids).await?.iter().map(rows::key_id).collect()
}
