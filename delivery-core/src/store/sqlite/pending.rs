//! Counts that are committed but not yet flushed to `delivery_count`, by the numbers of their keys.
//!
//! Every count is absolute: how often the key was used, and its newest use. A count only grows, so of two counts of a
//! key the one with the later use is newer. A reader takes a [`Snapshot`] first, then reads rows, and keeps the newer
//! count of each key. A flush cannot remove a count in between, since a snapshot holds the maps themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::{Key, KeyState};
use crate::ledger::plan::Row;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) used: u64,
    /// The number of the newest use.
    pub(super) last_use: i64,
}

type Counts = Arc<Mutex<HashMap<i64, Count>>>;

/// The counts since the last flush began, and the counts that it writes.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Snapshot>);

/// The counts that are pending at one moment. Newer counts of the same keys may still be added to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    newer: Counts,
    older: Counts,
}

impl Pending {
    /// Adds committed counts.
    pub(super) fn extend(&self, counts: impl Iterator<Item = (i64, Count)>) {
        lock(&lock(&self.0).newer).extend(counts);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        lock(&self.0).clone()
    }

    /// Begins a flush: forgets the counts of the previous one, and returns those to write, by ascending key number.
    pub(super) fn begin_flush(&self) -> Vec<(i64, Count)> {
        let mut both = lock(&self.0);
        both.older = std::mem::take(&mut both.newer);
        let mut counts: Vec<_> = lock(&both.older).iter().map(|(key, count)| (*key, *count)).collect();
        drop(both);
        counts.sort_unstable_by_key(|(key, _)| *key);
        counts
    }

    /// Replaces all counts by those that recovery found.
    pub(super) fn reset(&self, counts: HashMap<i64, Count>) {
        *lock(&self.0) = Snapshot { newer: Arc::new(Mutex::new(counts)), older: Counts::default() };
    }
}

impl Snapshot {
    /// Returns `row` with the newer of its own and its pending count. The snapshot must be older than the row.
    pub(super) fn newest(&self, row: Row) -> Row {
        let pending = [&self.newer, &self.older].into_iter().find_map(|counts| lock(counts).get(&row.number).copied());
        let Some(Count { used, last_use }) = pending.filter(|count| Some(count.last_use) > row.last_use) else {
            return row;
        };
        let state = KeyState { used, ..row.key.state().clone() };
        Row { key: Key::new(row.key.granted().clone(), state), last_use: Some(last_use), ..row }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
