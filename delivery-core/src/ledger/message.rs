//! Messages of the outbox as a store keeps them: numbers, times and recipients, nothing secret.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::notice::{MessageId, MessageKind, Recipient};
use crate::key::Key;
use crate::text::Invalid;

/// A message's number in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageNumber(i64);

/// The way e-mails go, to recognise it by: a digest of the sender and the mail server's settings from which neither can be
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route([u8; 16]);

/// A message leased for sending. It holds no text: that is rendered when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct LeasedMessage {
    /// Completes it.
    pub lease: Lease,
    /// What it says.
    pub kind: MessageKind,
    /// Whom it goes to.
    pub recipient: Recipient,
    /// Its `Message-ID`.
    pub message_id: MessageId,
    /// The key it brings, or tells of.
    pub key: Key,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When it was queued.
    pub queued_at: DateTime<Utc>,
}

/// A lease on a message, with its fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Lease {
    /// The message.
    pub message: MessageNumber,
    /// Counts the leases of the message: a lease with an older token completes nothing.
    pub token: i64,
}

/// What became of a leased message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "a store handles each")]
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
    Fail {
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

/// A message that failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct FailedMessage {
    /// The message.
    pub message: MessageNumber,
    /// What it says.
    pub kind: MessageKind,
    /// Whom it goes to.
    pub recipient: Recipient,
    /// The key it should bring, or tell of.
    pub key: Key,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub failed_at: DateTime<Utc>,
    /// Why.
    pub reason: String,
}

impl MessageNumber {
    /// A store's own number for an e-mail.
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

crate::text::serde_as_number!(
    MessageNumber,
    i64,
    |number| Ok::<_, Invalid>(MessageNumber::new(number)),
    MessageNumber::get
);
