//! What a planned batch persists.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Row;
use crate::email::Email;
use crate::key::{Actor, KeyState};
use crate::store::{Lease, MessageId, MessageKind, Outcome, StoreError};

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
    pub events: Vec<NewEvent>,
    /// Leases to end. A lease that went to somebody else is left alone.
    pub completed: Vec<(Lease, Outcome)>,
}

/// A key to insert or to update: its whole state, whatever a rule touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct KeyWrite {
    /// The row as the batch leaves it. Its `version` is the one that was loaded: the stored row must still have it, and has
    /// the next one afterwards.
    pub row: Row,
    /// The state that was loaded; `None` for a key to insert, together with its purchase if it was bought.
    pub loaded: Option<KeyState>,
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
    pub recipient: Email,
    /// When it is queued.
    pub at: DateTime<Utc>,
}

/// An audit entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores read it and must not miss a field")]
pub struct NewEvent {
    /// The key's index in [`Writes::keys`].
    pub unit: usize,
    /// The entry's number.
    pub number: i64,
    /// The number of the key's row.
    pub key: i64,
    /// When, to the millisecond.
    pub at: DateTime<Utc>,
    /// Who did it.
    pub actor: Actor,
    /// What was done.
    pub action: Action,
    /// What else there is to say.
    pub detail: Option<String>,
}

/// What an audit entry says was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Action {
    /// A key was revoked.
    Revoked,
    /// A revocation was lifted.
    Restored,
    /// A key's terms were changed.
    TermsChanged,
}

/// Numbers for new rows, ascending. A store takes them from its database a block at a time.
#[derive(Debug, Default)]
pub struct Numbers {
    next: i64,
    end: i64,
}

impl Writes {
    /// Whether there is nothing to persist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.completed.is_empty()
    }
}

impl KeyWrite {
    /// Whether the key was only used: nothing but its count and its newest use differ from what was loaded.
    #[must_use]
    pub fn is_only_counted(&self) -> bool {
        // Without `..`, so that a new part of the state is compared too.
        let KeyState { expires_at, limit, used: _, revoked } = self.row.key.state();
        let same =
            |loaded: &KeyState| (&loaded.expires_at, &loaded.limit, &loaded.revoked) == (expires_at, limit, revoked);
        self.loaded.as_ref().is_some_and(same)
    }
}

impl Action {
    /// The name that a store keeps.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Restored => "restored",
            Self::TermsChanged => "terms changed",
        }
    }
}

impl Numbers {
    /// The numbers from `first` on, `count` of them.
    #[must_use]
    pub fn block(first: i64, count: i64) -> Self {
        Self { next: first, end: first.saturating_add(count) }
    }

    /// How many are left.
    #[must_use]
    pub fn left(&self) -> i64 {
        self.end - self.next
    }

    /// The number before the next one: the greatest that was taken, if one was.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.next - 1
    }

    /// The next number.
    pub(in crate::store) fn take(&mut self) -> Result<i64, StoreError> {
        let number = self.next;
        if number >= self.end {
            return Err(StoreError::corrupt("fewer numbers than a plan needs"));
        }
        self.next += 1;
        Ok(number)
    }
}
