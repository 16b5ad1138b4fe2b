//! Counts of uses that are committed but not yet flushed to `delivery_count`, in maps by the row number of the key.
//!
//! Every count is absolute: it consists of the total number of uses of the key, and the number of the newest use. A
//! count only grows, so of two counts of a key, the one with the later use is newer.
//!
//! A reader first takes a [`Snapshot`], and then reads rows. For each key the reader takes the newer of two counts: the
//! one in the snapshot, and the one in the row. If a [pass](super::flush) begins between these two steps, the snapshot
//! keeps its counts, because the pass replaces the maps and removes nothing from them.

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

/// Two maps of counts: the counts since the last [pass](super::flush) began, and the counts that this pass writes.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Snapshot>);

/// The counts that are pending at one moment. Newer counts may still be added to a snapshot while a reader has it.
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

    /// Begins a pass. Forgets the counts of the previous pass, and returns the counts to write, by ascending key
    /// number.
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
    /// Returns `row` with the newer of two counts: the one in the row, and the one in this snapshot. The snapshot must
    /// have been taken before the row was read.
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
