//! The rows that a planned batch persists.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Row;
use super::loaded::{DealRow, ReferenceId, RequestRow};
use crate::key::{Actor, Key, KeyState};
use crate::ledger::inbox::{Customer, InboxEvent};
use crate::ledger::{Action, Edit, Lease, MessageId, MessageKind, Outcome, Recipient, StoreError};

/// The rows that a batch persists. Rows with the same `unit`, an index in [`keys`](Self::keys), belong to one key and
/// are persisted together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Writes {
    /// Keys, as the batch leaves them.
    pub keys: Vec<KeyWrite>,
    /// Counted uses, in the order of their numbers.
    pub uses: Vec<NewUse>,
    /// Messages to queue.
    pub messages: Vec<NewMessage>,
    /// Audit entries.
    pub events: Vec<NewAuditEntry>,
    /// Leases to end. A message that was leased again since is left alone.
    pub completed: Vec<(Lease, Outcome)>,
    /// What platform events write besides keys.
    #[serde(default)]
    pub inbox: InboxWrites,
    /// Requests that may be repeated, as the batch leaves them. If there is any, the writes are
    /// [atomic](Self::is_atomic).
    #[serde(default)]
    pub requests: Vec<RequestRow>,
}

/// What platform events write besides keys. If there is any of it, the [`Writes`] are [atomic](Writes::is_atomic).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxWrites {
    /// Events to insert, with version 0, or to update, with the version that was loaded. An update requires that the
    /// stored row still has this version, and increments it.
    pub entries: Vec<InboxEvent>,
    /// References to insert, each with the number of its deal.
    pub references: Vec<(ReferenceId, i64)>,
    /// Deals to insert, with version 0, or to update, with the version that was loaded.
    pub deals: Vec<DealRow>,
    /// Customers' addresses. A newer address replaces an older one.
    pub customers: Vec<Customer>,
    /// Audit entries of events that a person applied or dismissed, each with its number. The detail names the platform
    /// and the event.
    #[serde(default)]
    pub applied: Vec<(i64, Action, Edit)>,
}

/// A key to insert or to update: its whole state and its address, whichever part a rule changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct KeyWrite {
    /// The row as the batch leaves it, with the version that was loaded. An update requires that the stored row still
    /// has this version, and increments it.
    pub row: Row,
    /// The key as it was loaded; `None` for a key to insert. If a new key was bought, its purchase is inserted with it.
    pub loaded: Option<Key>,
    /// The row number of the key that this key replaces. If the replaced key has a purchase, this key takes it over.
    #[serde(default)]
    pub heir_of: Option<i64>,
}

/// A use to record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct NewUse {
    /// The key's index in [`Writes::keys`].
    pub unit: usize,
    /// The use's number.
    pub number: i64,
    /// The number of the key's row.
    pub key: i64,
    /// When the key was used, to the millisecond.
    pub at: DateTime<Utc>,
    /// The key's count of uses after this one.
    pub used: u64,
    /// The number of the key's previous use.
    pub previous: Option<i64>,
}

/// A message to queue, due at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct NewMessage {
    /// The key's index in [`Writes::keys`].
    pub unit: usize,
    /// The message's number.
    pub number: i64,
    /// The number of the key's row.
    pub key: i64,
    /// The message's `Message-ID`.
    pub id: MessageId,
    /// The kind of message.
    pub kind: MessageKind,
    /// The recipient.
    pub recipient: Recipient,
    /// When the message is queued.
    pub at: DateTime<Utc>,
}

/// An audit entry to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct NewAuditEntry {
    /// The key's index in [`Writes::keys`].
    pub unit: usize,
    /// The entry's number.
    pub number: i64,
    /// The number of the key's row.
    pub key: i64,
    /// When the action was done, to the millisecond.
    pub at: DateTime<Utc>,
    /// Who did it.
    #[serde(deserialize_with = "Actor::deserialize_stored")]
    pub actor: Actor,
    /// What was done.
    pub action: Action,
    /// Further detail.
    pub detail: Option<String>,
}

/// Numbers for new rows, ascending. A store takes them from its database a block at a time.
#[derive(Debug, Default)]
pub struct Numbers {
    next: i64,
    end: i64,
    /// Further blocks, each as its first number and the number after its last.
    further: VecDeque<(i64, i64)>,
}

impl Writes {
    /// Returns whether there is nothing to persist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.completed.is_empty() && self.inbox.is_empty() && self.requests.is_empty()
    }

    /// Returns whether all writes are persisted together or not at all. They are if they include platform events, keys
    /// that replace others, or requests that may be repeated.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        !self.inbox.is_empty() || !self.requests.is_empty() || self.keys.iter().any(|write| write.heir_of.is_some())
    }
}

impl InboxWrites {
    /// Returns whether platform events write nothing besides keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // References are only written together with a deal.
        self.entries.is_empty() && self.deals.is_empty() && self.customers.is_empty()
    }
}

impl KeyWrite {
    /// Returns whether the key was only used: only its count and its newest use differ from the loaded row.
    #[must_use]
    pub fn is_only_counted(&self) -> bool {
        // Without `..`, so that a new field of the state must be compared too.
        let KeyState { expires_at, limit, used: _, revoked } = self.row.key.state();
        let same = |loaded: &Key| {
            let state = loaded.state();
            (&state.expires_at, &state.limit, &state.revoked) == (expires_at, limit, revoked)
                && loaded.email() == self.row.key.email()
        };
        self.loaded.as_ref().is_some_and(same)
    }
}

impl Numbers {
    /// Creates a block of `count` numbers that starts with `first`.
    #[must_use]
    pub fn block(first: i64, count: i64) -> Self {
        Self { next: first, end: first.saturating_add(count), further: VecDeque::new() }
    }

    /// Adds a block of greater numbers.
    #[cfg(feature = "postgres")]
    pub(crate) fn extend(&mut self, first: i64, count: i64) {
        self.further.push_back((first, first.saturating_add(count)));
    }

    /// Returns how many numbers are left.
    #[must_use]
    pub fn left(&self) -> i64 {
        self.end - self.next + self.further.iter().map(|(first, end)| end - first).sum::<i64>()
    }

    /// Returns the number before the next one: the greatest number taken so far, if any was taken.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.next - 1
    }

    /// Takes a number for a row that is listed by time; see [`number_at`].
    pub(crate) fn take_at(&mut self, at: DateTime<Utc>) -> Result<i64, StoreError> {
        Ok(number_at(at, self.take()?))
    }

    /// Takes the next number.
    pub(crate) fn take(&mut self) -> Result<i64, StoreError> {
        if self.next >= self.end
            && let Some((first, end)) = self.further.pop_front()
        {
            (self.next, self.end) = (first, end);
        }
        let number = self.next;
        if number >= self.end {
            return Err(StoreError::corrupt("fewer numbers than a plan needs"));
        }
        self.next += 1;
        Ok(number)
    }
}

/// Returns the number of a row that is listed by time, such as an audit entry: the second of `time`, and below it the
/// lower 30 bits of `number`, which no other row has. These numbers are in the order of the rows' times, whichever
/// server makes the rows.
///
/// Times before 1970 and after 2242, which only a wrong clock shows, are moved to the nearer of the two. Within one
/// second, two servers never use the same lower bits: their blocks of numbers would have to be a thousand million
/// numbers apart.
#[must_use]
pub fn number_at(time: DateTime<Utc>, number: i64) -> i64 {
    const LOWER: i64 = 1 << 30;
    const LAST: i64 = (1 << 33) - 1;
    (time.timestamp().clamp(0, LAST) * LOWER) | (number & (LOWER - 1))
}
