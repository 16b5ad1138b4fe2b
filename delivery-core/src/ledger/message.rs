//! Messages that wait to be sent, as a store keeps them: with numbers, times and recipients, but without secrets.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::notice::{MessageId, MessageKind, Recipient};
use crate::key::Key;
use crate::text::Invalid;

/// A message's number in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageNumber(i64);

/// A fingerprint of how e-mails are sent: a digest of the sender and the mail server's settings. The settings cannot be
/// read from the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route([u8; 16]);

/// A message leased for sending. It contains no text, because the text is rendered when the message is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct LeasedMessage {
    /// The lease, which is needed to complete the message, that is, to record its [`Outcome`].
    pub lease: Lease,
    /// The kind of message.
    pub kind: MessageKind,
    /// The recipient.
    pub recipient: Recipient,
    /// The message's `Message-ID`.
    pub message_id: MessageId,
    /// The key that the message delivers or is about.
    pub key: Key,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When the message was queued.
    pub queued_at: DateTime<Utc>,
}

/// A lease on a message, with its fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Lease {
    /// The leased message.
    pub message: MessageNumber,
    /// The fencing token, which grows with each lease of the message. A lease with an older token can no longer
    /// complete the message.
    pub token: i64,
}

/// What became of a leased message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "a store must handle each variant")]
pub enum Outcome {
    /// The mail server or the webhook's receiver accepted the message.
    Sent {
        /// When it was accepted.
        at: DateTime<Utc>,
    },
    /// The attempt failed. The message is tried again later.
    Retry {
        /// When the message is due.
        due: DateTime<Utc>,
        /// Why the attempt failed, without secrets.
        reason: String,
        /// The route of the failed attempt: a digest of the sender and the mail server's settings. If these change, the
        /// message is tried before it is due. `None` if a mail server may have accepted the message although the
        /// attempt failed. The message is then never tried early.
        route: Option<Route>,
    },
    /// The message was not tried, because something else failed first, such as the host application's own database.
    /// Neither a mail server nor a webhook's receiver got the message. It is tried later, and this lease does not count
    /// as an attempt.
    Postpone {
        /// When the message is due.
        due: DateTime<Utc>,
        /// Why the message was not tried, without secrets.
        reason: String,
    },
    /// The message is given up. It is not tried again unless it is queued again.
    Fail {
        /// When the message was given up.
        at: DateTime<Utc>,
        /// Why the message was given up, without secrets.
        reason: String,
        /// The route of the last attempt: a digest of the sender and the mail server's settings.
        route: Route,
    },
    /// No attempt was made to send the message. It is due at once, and this lease does not count as an attempt.
    Release,
}

impl Outcome {
    /// Returns the same outcome, except that a message that is retried or postponed is not due before `earliest`.
    #[must_use]
    pub(crate) fn not_due_before(mut self, earliest: DateTime<Utc>) -> Self {
        if let Self::Retry { due, .. } | Self::Postpone { due, .. } = &mut self {
            *due = earliest.max(*due);
        }
        self
    }
}

/// A message that failed permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct FailedMessage {
    /// The message.
    pub message: MessageNumber,
    /// The kind of message.
    pub kind: MessageKind,
    /// The recipient.
    pub recipient: Recipient,
    /// The key that the message should have delivered, or is about.
    pub key: Key,
    /// How often the message was tried since it was last queued.
    pub attempts: u32,
    /// When the message was given up.
    pub failed_at: DateTime<Utc>,
    /// Why the message failed.
    pub reason: String,
}

impl MessageNumber {
    /// Wraps a store's own number for a message.
    #[must_use]
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the store's own number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl Route {
    /// Restores a route from its 16 stored bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the 16 bytes to store.
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
