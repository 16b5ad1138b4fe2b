//! Counts that are committed but not yet flushed to `delivery_count`, by the numbers of their keys.
//!
//! Every count is absolute: how often the key was used, and its newest use. A count only grows, so of two counts of a key the
//! one with the later use is the newer one, and that is all a reader needs: it takes a [`Snapshot`] first, reads rows, and
//! keeps the newer count of each key. A flush cannot take a count away in between, since a snapshot holds the maps themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::{Key, KeyState};
use crate::ledger::plan::Row;

/// A key's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) used: u64,
    /// The number of the newest use.
    pub(super) last_use: i64,
}

type Counts = Arc<Mutex<HashMap<i64, Count>>>;

/// The counts since the last flush began, and those that it flushes.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Snapshot>);

/// The pending counts of a moment, and later ones of the same keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    newer: Counts,
    older: Counts,
}

impl Pending {
    /// Adds counts that were committed.
    pub(super) fn extend(&self, counts: impl Iterator<Item = (i64, Count)>) {
        lock(&lock(&self.0).newer).extend(counts);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        lock(&self.0).clone()
    }

    /// Begins a flush: the counts to write, by ascending number of their key. What the flush before took on is forgotten.
    pub(super) fn begin_flush(&self) -> Vec<(i64, Count)> {
        let mut both = lock(&self.0);
        both.older = std::mem::take(&mut both.newer);
        let mut counts: Vec<_> = lock(&both.older).iter().map(|(key, count)| (*key, *count)).collect();
        drop(both);
        counts.sort_unstable_by_key(|(key, _)| *key);
        counts
    }

    /// At the start: forgets everything, and begins with the counts that were found.
    pub(super) fn reset(&self, counts: HashMap<i64, Count>) {
        *lock(&self.0) = Snapshot { newer: Arc::new(Mutex::new(counts)), older: Counts::default() };
    }
}

impl Snapshot {
    /// A row that was read after this snapshot was taken, with the newer one of its two counts.
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
