//! The rows that a planned batch persists.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Row;
use super::loaded::{DealRow, ReferenceId, RequestRow};
use crate::key::{Actor, Alias, Key, KeyState};
use crate::ledger::inbox::{Customer, InboxEvent};
use crate::ledger::{Action, Edit, Lease, MessageId, MessageKind, Outcome, Recipient, StoreError};

/// The rows that a batch persists. The `unit` of a use, a message or an audit entry is the index in
/// [`keys`](Self::keys) of the key to which it belongs. A key is persisted together with everything that belongs to it,
/// or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Writes {
    /// Keys to insert or to update.
    pub keys: Vec<KeyWrite>,
    /// Uses to record, in the order of their numbers.
    pub uses: Vec<NewUse>,
    /// Messages to queue.
    pub messages: Vec<NewMessage>,
    /// Audit entries to add.
    pub audit_entries: Vec<NewAuditEntry>,
    /// Leases of messages that end, each with what became of the message. If a message was leased again meanwhile,
    /// ending the older lease changes nothing.
    pub completed: Vec<(Lease, Outcome)>,
    /// The rows that platform events write, except keys.
    #[serde(default)]
    pub inbox: InboxWrites,
    /// Rows of requests that have an idempotency key, to insert or to update. If there are any, the writes are
    /// [atomic](Self::is_atomic).
    #[serde(default)]
    pub requests: Vec<RequestRow>,
    /// Aliases of new keys to insert, each with the row number of its key. If there are any, the writes are
    /// [atomic](Self::is_atomic).
    #[serde(default)]
    pub aliases: Vec<(Alias, i64)>,
}

/// The rows that platform events write, except keys. If there are any, the [`Writes`] are [atomic](Writes::is_atomic).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxWrites {
    /// Events to insert or to update. An event to insert has version 0. An event to update has the version that was
    /// loaded: the update fails if the stored row has another version, and increments the version otherwise.
    pub events: Vec<InboxEvent>,
    /// The platform's references to insert, such as the number of an order or a payment. Each has the row number of the
    /// deal to which it belongs.
    pub references: Vec<(ReferenceId, i64)>,
    /// Deals to insert or to update. A deal is what a platform has reported about one sale or subscription. A deal to
    /// insert has version 0, and a deal to update has the version that was loaded.
    pub deals: Vec<DealRow>,
    /// Customers' addresses. A newer address replaces an older one.
    pub customers: Vec<Customer>,
    /// Audit entries for events that a person applied or dismissed. The number is the row number of the entry. The
    /// detail of an entry names the platform and the event.
    #[serde(default)]
    pub applied: Vec<(i64, Action, Edit)>,
}

/// A key to insert or to update. Its whole state and the buyer's address are written, even if only a part of them
/// changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct KeyWrite {
    /// The new content of the row, with the version that was loaded. An update fails if the stored row has another
    /// version, and increments the version otherwise.
    pub row: Row,
    /// The key as it was loaded; `None` for a key to insert. If an inserted key belongs to a purchase and replaces no
    /// other key, the purchase is inserted too.
    pub loaded: Option<Key>,
    /// The row number of the key that this key replaces. If the replaced key belongs to a purchase, this key becomes
    /// the key of that purchase.
    #[serde(default)]
    pub heir_of: Option<i64>,
}

/// A use of a key that is to be recorded.
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
    /// The number of the key's previous use; `None` if this is the first.
    pub previous: Option<i64>,
}

/// A message to queue. It is due at once.
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
    /// What else the audit log shows, such as the old and the new expiry.
    pub detail: Option<String>,
}

/// Numbers for new rows, in ascending order. A store reserves them in its database in blocks.
#[derive(Debug, Default)]
pub struct Numbers {
    next: i64,
    end: i64,
    /// Further blocks. Each is stored as its first number and the number after its last number.
    further: VecDeque<(i64, i64)>,
}

impl Writes {
    /// Returns whether there is nothing to persist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Aliases are only written together with their keys.
        self.keys.is_empty() && self.completed.is_empty() && self.inbox.is_empty() && self.requests.is_empty()
    }

    /// Returns whether all writes must be persisted together or not at all. This is so if they include platform events,
    /// keys that replace others, requests that have an idempotency key, or aliases.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        let replaces = self.keys.iter().any(|write| write.heir_of.is_some());
        replaces || !self.inbox.is_empty() || !self.requests.is_empty() || !self.aliases.is_empty()
    }
}

impl InboxWrites {
    /// Returns whether platform events write nothing except keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // References are only written together with a deal, and audit entries only together with an event.
        self.events.is_empty() && self.deals.is_empty() && self.customers.is_empty()
    }
}

impl KeyWrite {
    /// Returns whether the key changed only by being used: at most its count of uses and its newest use differ from the
    /// loaded row.
    #[must_use]
    pub fn is_only_counted(&self) -> bool {
        // The pattern has no `..`, so that a new field of the state does not compile until it is compared here too.
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

    /// Adds a further block of numbers. They must be greater than the numbers of all earlier blocks.
    #[cfg(feature = "postgres")]
    pub(crate) fn extend(&mut self, first: i64, count: i64) {
        self.further.push_back((first, first.saturating_add(count)));
    }

    /// Returns how many numbers are left.
    #[must_use]
    pub fn left(&self) -> i64 {
        self.end - self.next + self.further.iter().map(|(first, end)| end - first).sum::<i64>()
    }

    /// Returns the greatest number that was taken so far. If no number was taken yet, returns the number before the
    /// first one.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.next - 1
    }

    /// Takes a number for a row that is listed by time; [`number_at`] describes such numbers.
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

/// Returns a number for a row that is listed by time, such as an audit entry. Its lower 30 bits are those of `number`,
/// a row number that no other row has. The bits above contain `time` in seconds since 1970. Such numbers are in the
/// order of the rows' times, to the second, whichever servers wrote the rows.
///
/// A time before 1970 or after 2242, which only a wrong clock shows, is replaced by the nearer of these limits. Two
/// rows have the same number only if their times are in the same second and their row numbers differ by a multiple of
/// 2³⁰. Servers do not use row numbers that far apart within one second.
#[must_use]
pub fn number_at(time: DateTime<Utc>, number: i64) -> i64 {
    const LOWER: i64 = 1 << 30;
    const LAST: i64 = (1 << 33) - 1;
    (time.timestamp().clamp(0, LAST) * LOWER) | (number & (LOWER - 1))
}
