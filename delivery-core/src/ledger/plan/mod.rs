//! The planner, which turns the operations of a batch into rows to write. A batch is a group of operations that a store
//! plans and persists together.
//!
//! The [`Planner`] contains the loaded rows and the rows to write. Each [operation](super::operation) acts on the
//! planner in steps: it inserts or changes a key, adds an audit entry, queues messages. Each step sees the results of
//! the earlier steps.

mod keys;
mod loaded;
mod writes;

use std::collections::BTreeSet;

pub use self::loaded::{DealRow, Loaded, Needs, PurchaseId, ReferenceId, RequestRow, Row};
pub use self::writes::{InboxWrites, KeyWrite, NewAuditEntry, NewMessage, NewUse, Numbers, Writes, number_at};
use super::StoreError;
use super::inbox::{EventId, InboxEvent};
use crate::key::KeyId;

/// A batch of operations that is being planned.
pub(in crate::ledger) struct Planner<'n> {
    pub(in crate::ledger) loaded: Loaded,
    pub(in crate::ledger) numbers: &'n mut Numbers,
    pub(in crate::ledger) writes: Writes,
    /// The identities of the platform events that the batch writes.
    events: BTreeSet<EventId>,
    /// The row numbers of the deals that the batch writes. A deal is what a platform has reported about one sale or
    /// subscription.
    deals: BTreeSet<i64>,
}

/// What the answer to an operation is based on. This determines whether the answer may be returned once the writes of
/// the batch were persisted or have failed.
#[derive(Debug, Clone, Copy)]
pub(in crate::ledger) enum Basis {
    /// Rows that cannot be stale, or no row at all. The answer is valid once the batch is persisted.
    Read,
    /// The row of the key with this id, from a cache, so the row may be stale. The answer is valid only if the batch
    /// also writes this key, and if this write succeeds. The write of a stale row fails.
    Cached(KeyId),
    /// The key at this index in [`Writes::keys`]. The answer is valid only if that key is persisted.
    Unit(usize),
}

impl<'n> Planner<'n> {
    pub(in crate::ledger) fn new(loaded: Loaded, numbers: &'n mut Numbers) -> Self {
        Self { loaded, numbers, writes: Writes::default(), events: BTreeSet::new(), deals: BTreeSet::new() }
    }

    /// Records the current state of a deal, which is what a platform has reported about one sale or subscription. The
    /// batch will write this state.
    pub(in crate::ledger) fn keep_deal(&mut self, row: DealRow) {
        self.deals.insert(row.number);
        self.loaded.insert_deal(row);
    }

    /// Records the current state of a platform event. The batch will write this state.
    pub(in crate::ledger) fn keep_event(&mut self, event: InboxEvent) {
        self.events.insert(event.id.clone());
        self.loaded.insert_event(event);
    }

    /// Returns the rows to write, in the state after the last operation. Also returns the loaded rows, without the
    /// events and deals that are to be written.
    pub(in crate::ledger) fn finish(self) -> Result<(Writes, Loaded), StoreError> {
        let Self { mut loaded, mut writes, events, deals, .. } = self;
        for write in &mut writes.keys {
            if let Some(row) = loaded.key(write.row.key.id())? {
                write.row.clone_from(row);
            }
        }
        writes.inbox.events.extend(events.iter().filter_map(|id| loaded.take_event(id)));
        writes.inbox.deals.extend(deals.into_iter().filter_map(|number| loaded.take_deal(number)));
        Ok((writes, loaded))
    }
}
