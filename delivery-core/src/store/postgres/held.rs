//! Keys that somebody else holds: a hand with `SELECT … FOR UPDATE`, a server that froze within its transaction.
//!
//! Whoever commits waits for a lock for 50 ms. Then it asks which keys of its batch are locked, and puts the operations on
//! those aside until they are not: all other operations go on without waiting. What is no key, an order that another
//! transaction is just inserting, is found by trying the batch in parts.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::postgres::PgConnection;

use super::plan::ask;
use crate::key::KeyId;
use crate::store::{StoreError, rows};

/// How often to ask whether they still are held.
const LOOK: Duration = Duration::from_millis(20);
/// So many operations committed at once show that nobody holds anything of a batch.
const CALM: usize = 2;

#[derive(Default)]
pub(super) struct Held {
    keys: HashSet<KeyId>,
    /// When they were last asked for.
    looked: Option<Duration>,
    /// Whether a lock was met since the last batch that met none.
    hurry: bool,
}

impl Held {
    pub(super) fn holds(&self, id: &KeyId) -> bool {
        self.keys.contains(id)
    }

    /// Whether to wait for locks only for a moment.
    pub(super) fn hurries(&self) -> bool {
        self.hurry
    }

    /// A lock was met by a batch with these keys.
    pub(super) fn suspect(&mut self, keys: impl Iterator<Item = KeyId>) {
        self.keys.extend(keys);
        (self.looked, self.hurry) = (None, true);
    }

    /// A batch of so many operations met no lock.
    pub(super) fn committed(&mut self, operations: usize) {
        self.hurry &= operations < CALM;
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
