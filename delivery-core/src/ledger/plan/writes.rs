//! What a planned batch persists.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Row;
use super::loaded::{DealRow, ReferenceId, RequestRow};
use crate::key::{Actor, Key, KeyState};
use crate::ledger::inbox::{Customer, InboxEvent};
use crate::ledger::{Action, Edit, Lease, MessageId, MessageKind, Outcome, Recipient, StoreError};

/// What a batch persists. The rows of one key, which have its index in [`keys`](Self::keys) as their `unit`, are persisted
/// together or not at all.
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
    /// Leases to end. A lease that went to somebody else is left alone.
    pub completed: Vec<(Lease, Outcome)>,
    /// Events of platforms, and what they came to.
    #[serde(default)]
    pub inbox: InboxWrites,
    /// Requests that may be repeated, as the batch leaves them. If there is any, the writes [are one](Self::is_atomic).
    #[serde(default)]
    pub requests: Vec<RequestRow>,
}

/// What events of platforms write beside keys. If there is any of it, the [`Writes`] [are one](Writes::is_atomic).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxWrites {
    /// Events to insert, with version 0, or to update, with the version that was loaded: the stored row must still have it, and
    /// has the next one afterwards.
    pub entries: Vec<InboxEvent>,
    /// References to insert, each with the number of its deal.
    pub references: Vec<(ReferenceId, i64)>,
    /// Deals to insert, with version 0, or to update, with the version that was loaded.
    pub deals: Vec<DealRow>,
    /// Addresses of customers; a later one replaces an earlier one.
    pub customers: Vec<Customer>,
    /// Audit entries of events that somebody has applied or dismissed, each with its number and the platform and name of the event.
    #[serde(default)]
    pub applied: Vec<(i64, Action, Edit)>,
}

/// A key to insert, or one to update: its whole state and its address, whatever a rule touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct KeyWrite {
    /// The row as the batch leaves it. Its `version` is the one that was loaded: the stored row must still have it, and has
    /// the next one afterwards.
    pub row: Row,
    /// The key that was loaded; `None` for a key to insert, together with its purchase if it was bought.
    pub loaded: Option<Key>,
    /// The number of the row of the key that it replaces. It takes over the purchase of that key, if it has one.
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
    /// When, to the millisecond.
    pub at: DateTime<Utc>,
    /// How often the key was used after it.
    pub used: u64,
    /// The number of the key's use before it.
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
    /// Its `Message-ID`.
    pub id: MessageId,
    /// What it says.
    pub kind: MessageKind,
    /// Whom it goes to.
    pub recipient: Recipient,
    /// When it is queued.
    pub at: DateTime<Utc>,
}

/// An audit entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct NewAuditEntry {
    /// The key's index in [`Writes::keys`].
    pub unit: usize,
    /// The entry's number.
    pub number: i64,
    /// The number of the key's row.
    pub key: i64,
    /// When, to the millisecond.
    pub at: DateTime<Utc>,
    /// Who did it.
    #[serde(deserialize_with = "Actor::deserialize_stored")]
    pub actor: Actor,
    /// What was done.
    pub action: Action,
    /// What else there is to say.
    pub detail: Option<String>,
}

/// Numbers for new rows, ascending. A store takes them from its database a block at a time.
#[derive(Debug, Default)]
pub struct Numbers {
    next: i64,
    end: i64,
    /// The blocks after it, each from its first number to the one after its last.
    further: VecDeque<(i64, i64)>,
}

impl Writes {
    /// Whether there is nothing to persist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.completed.is_empty() && self.inbox.is_empty() && self.requests.is_empty()
    }

    /// Whether all of it is persisted together or not at all: events of platforms, keys that replace others, or requests that may
    /// be repeated are among it.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        !self.inbox.is_empty() || !self.requests.is_empty() || self.keys.iter().any(|write| write.heir_of.is_some())
    }
}

impl InboxWrites {
    /// Whether there is nothing of it, and keys are persisted each by itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // References come with a deal.
        self.entries.is_empty() && self.deals.is_empty() && self.customers.is_empty()
    }
}

impl KeyWrite {
    /// Whether the key was only used: nothing but its count and its newest use differ from what was loaded.
    #[must_use]
    pub fn is_only_counted(&self) -> bool {
        // Without `..`, so that a new part of the state is compared too.
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
    /// The numbers from `first` on, `count` of them.
    #[must_use]
    pub fn block(first: i64, count: i64) -> Self {
        Self { next: first, end: first.saturating_add(count), further: VecDeque::new() }
    }

    /// Adds a block of greater numbers.
    #[cfg(feature = "postgres")]
    pub(crate) fn extend(&mut self, first: i64, count: i64) {
        self.further.push_back((first, first.saturating_add(count)));
    }

    /// How many are left.
    #[must_use]
    pub fn left(&self) -> i64 {
        self.end - self.next + self.further.iter().map(|(first, end)| end - first).sum::<i64>()
    }

    /// The number before the next one: the greatest that was taken, if one was.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.next - 1
    }

    /// A number for a row that is listed by time, by [`number_at`].
    pub(crate) fn take_at(&mut self, at: DateTime<Utc>) -> Result<i64, StoreError> {
        Ok(number_at(at, self.take()?))
    }

    /// The next number.
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

/// The number of a row that is listed by time, such as an entry of the audit log: the second of `time`, and below it the lower bits
/// of `number`, which no other row has. Whichever server makes such rows, they are numbered in the order of their times.
///
/// Times before 1970 and after 2242, which no clock should have told, count as those. Of two servers at the same second, no two
/// rows have the same lower bits: their blocks of numbers would have to be a thousand million numbers apart.
#[must_use]
pub fn number_at(time: DateTime<Utc>, number: i64) -> i64 {
    const LOWER: i64 = 1 << 30;
    const LAST: i64 = (1 << 33) - 1;
    (time.timestamp().clamp(0, LAST) * LOWER) | (number & (LOWER - 1))
}
