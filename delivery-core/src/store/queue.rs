//! The queue of letters as a ledger keeps it: numbers and times, nothing secret.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::key::Key;
use crate::text::{Invalid, line};

/// A letter's number in its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LetterId(i64);

/// The `Message-ID` of a letter, without angle brackets: the same at each attempt, so that a mail server that was left
/// after the dot recognises the copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(String);

/// The way letters go, to recognise it by: a digest of the sender and the mail server's settings from which neither can be
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route([u8; 16]);

/// A letter leased for sending. It holds no text: that is rendered when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Letter {
    /// What to settle it with.
    pub receipt: Receipt,
    /// Its `Message-ID`.
    pub message_id: MessageId,
    /// The key it brings.
    pub key: Key,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When it was queued.
    pub queued_at: DateTime<Utc>,
}

/// A lease on a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Receipt {
    /// The letter.
    pub letter: LetterId,
    /// Counts the leases of the letter: a receipt with an old number settles nothing.
    pub fence: i64,
}

/// What became of a leased letter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A mail server took it.
    Sent {
        /// When.
        at: DateTime<Utc>,
    },
    /// It was not taken, and is due again.
    Retry {
        /// When it is due.
        due: DateTime<Utc>,
        /// Why it was not taken; no secrets.
        reason: String,
        /// The way it could not go; None if a mail server may have taken it all the same, so that no other way is to be tried
        /// before it is due.
        route: Option<Route>,
    },
    /// It was not tried, for a reason of the host's own: due again, and the claim does not count as an attempt.
    Postpone {
        /// When it is due.
        due: DateTime<Utc>,
        /// Why it was not tried; no secrets.
        reason: String,
    },
    /// It can never be sent: it waits for the seller.
    Park {
        /// When that was decided.
        at: DateTime<Utc>,
        /// Why; no secrets.
        reason: String,
        /// The way it could not go.
        route: Route,
    },
    /// It was not tried: due at once, and the claim does not count as an attempt.
    Release,
}

/// A letter that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct ParkedLetter {
    /// The letter.
    pub letter: LetterId,
    /// The key it should bring.
    pub key: Key,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub parked_at: DateTime<Utc>,
    /// Why.
    pub reason: String,
}

impl LetterId {
    /// A store's own number for a letter.
    #[must_use]
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// The store's own number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl Route {
    /// The route from its 16 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes that a store keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl MessageId {
    /// Reads `left@right`, without angle brackets.
    ///
    /// # Errors
    ///
    /// [`Invalid`] unless it has 3 to 250 visible ASCII characters with an `@` inside.
    pub fn new(id: impl Into<String>) -> Result<Self, Invalid> {
        let id = id.into();
        let visible = line(&id, 3, 250) && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>".contains(&byte));
        if visible && id.trim_matches('@').contains('@') {
            Ok(Self(id))
        } else {
            Err(Invalid::expected("must be left@right in visible ASCII"))
        }
    }

    /// The identifier, without angle brackets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.0)
    }
}
