//! Keys that somebody else holds: a hand with `SELECT … FOR UPDATE`, a server that froze within its transaction.
//!
//! Whoever commits waits for a lock for a tenth of a second. Then it asks which keys of its batch are locked, and puts the
//! operations on those aside until they are not: all other operations go on without waiting. What is no key, an order that
//! another transaction is just inserting, is found by trying the batch in parts, and whoever needs the same within a second
//! is put aside too.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::postgres::PgConnection;

use super::plan::ask;
use crate::key::KeyId;
use crate::store::operation::Operation;
use crate::store::{StoreError, rows};

/// How often to ask whether they still are held.
const LOOK: Duration = Duration::from_millis(20);
/// How long what is no key is taken for held.
const REMEMBERED: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Held {
    keys: HashSet<KeyId>,
    /// When they were last asked for.
    looked: Option<Duration>,
    /// Orders and letters, and until when they are taken for held.
    others: HashMap<Other, Duration>,
}

#[derive(PartialEq, Eq, Hash)]
enum Other {
    Order(String, String, i64),
    Letter(i64),
}

impl Other {
    fn of(operation: &Operation) -> Option<Self> {
        match operation {
            Operation::Issue(key, _) => {
                let order = key.order.as_ref()?;
                Some(Self::Order(order.source.as_str().to_owned(), order.id.as_str().to_owned(), key.product.get()))
            }
            Operation::Settle(receipt, _) => Some(Self::Letter(receipt.letter.get())),
            _ => None,
        }
    }
}

impl Held {
    pub(super) fn holds(&self, id: &KeyId) -> bool {
        self.keys.contains(id)
    }

    pub(super) fn holds_other(&self, operation: &Operation, now: Duration) -> bool {
        !self.others.is_empty()
            && Other::of(operation).and_then(|other| self.others.get(&other)).is_some_and(|until| now < *until)
    }

    /// An operation met a lock although it was alone.
    pub(super) fn hold(&mut self, operation: &Operation, now: Duration) {
        self.others.retain(|_, until| now < *until);
        self.others.extend(Other::of(operation).map(|other| (other, now + REMEMBERED)));
    }

    /// A lock was met by a batch with these keys.
    pub(super) fn suspect(&mut self, keys: impl Iterator<Item = KeyId>) {
        self.keys.extend(keys);
        self.looked = None;
    }

    /// The keys to ask for, if it is time.
    pub(super) fn due(&self, now: Duration) -> Option<HashSet<KeyId>> {
        let due = self.looked.is_none_or(|looked| now.saturating_sub(looked) >= LOOK);
        (due && !self.keys.is_empty()).then(|| self.keys.clone())
    }

    /// Of the keys that were asked for, these are locked.
    pub(super) fn keep(&mut self, locked: HashSet<KeyId>, now: Duration) {
        (self.keys, self.looked) = (locked, Some(now));
    }

    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }
}

/// Which of these keys somebody else has locked at this moment.
pub(super) async fn locked(session: &mut PgConnection, ids: &HashSet<KeyId>) -> Result<HashSet<KeyId>, StoreError> {
    const LOCKED: &str = "WITH free AS (SELECT number FROM delivery_key WHERE id = ANY($1) FOR UPDATE SKIP LOCKED) \
        SELECT k.id FROM delivery_key k WHERE k.id = ANY($1) AND NOT EXISTS (SELECT FROM free f WHERE f.number = k.number)";
    ask(session, LOCKED, ids).await?.iter().map(rows::key_id).collect()
}
