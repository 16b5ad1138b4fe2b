//! What a batch of operations is planned with: the rows that were loaded, the rows to write, and the steps between them.
//!
//! The [`Planner`] keeps both. Each [operation](super::operation) takes steps on it: it inserts a key, changes one, adds an
//! audit entry, queues messages. Each step sees what the steps before it left.

mod keys;
mod loaded;
mod writes;

use std::collections::BTreeSet;

pub use self::loaded::{DealRow, Loaded, Needs, PurchaseId, ReferenceId, RequestRow, Row};
pub use self::writes::{InboxWrites, KeyWrite, NewAuditEntry, NewMessage, NewUse, Numbers, Writes, number_at};
use super::StoreError;
use super::inbox::{EventId, InboxEvent};
use crate::key::KeyId;

/// A batch while it is planned.
pub(in crate::ledger) struct Planner<'n> {
    pub(in crate::ledger) loaded: Loaded,
    pub(in crate::ledger) numbers: &'n mut Numbers,
    pub(in crate::ledger) writes: Writes,
    /// Events and deals that the batch writes.
    entries: BTreeSet<EventId>,
    deals: BTreeSet<i64>,
}

/// What an answer rests on.
#[derive(Debug, Clone, Copy)]
pub(in crate::ledger) enum Basis {
    /// On rows that were read, or on the batch: it holds if persisting gave no error.
    Read,
    /// On a cached row that may be old. It holds if the batch writes that key, since persisting tells whether the row is old.
    Cached(KeyId),
    /// On the key at this index in [`Writes::keys`]: it holds if that is persisted.
    Unit(usize),
}

impl<'n> Planner<'n> {
    pub(in crate::ledger) fn new(loaded: Loaded, numbers: &'n mut Numbers) -> Self {
        Self { loaded, numbers, writes: Writes::default(), entries: BTreeSet::new(), deals: BTreeSet::new() }
    }

    /// Keeps a deal as it is now.
    pub(in crate::ledger) fn keep_deal(&mut self, row: DealRow) {
        self.deals.insert(row.number);
        self.loaded.insert_deal(row);
    }

    /// Keeps an event of a platform as it is now.
    pub(in crate::ledger) fn keep_entry(&mut self, entry: InboxEvent) {
        self.entries.insert(entry.id.clone());
        self.loaded.insert_entry(entry);
    }

    /// The rows as the last operation left them, and what was loaded beside them.
    pub(in crate::ledger) fn finish(self) -> Result<(Writes, Loaded), StoreError> {
        let Self { mut loaded, mut writes, entries, deals, .. } = self;
        for write in &mut writes.keys {
            if let Some(row) = loaded.key(write.row.key.id())? {
                write.row.clone_from(row);
            }
        }
        writes.inbox.entries.extend(entries.iter().filter_map(|id| loaded.take_entry(id)));
        writes.inbox.deals.extend(deals.into_iter().filter_map(|number| loaded.take_deal(number)));
        Ok((writes, loaded))
    }
}
