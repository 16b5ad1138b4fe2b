//! A message's identity, what it says, and whom it goes to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::text::{Invalid, line};

crate::text::line_type! {
    /// The name of a webhook of the host's: 1 to 64 characters without control characters. Messages that
    /// wait for it are stored under this name.
    WebhookName, 64
}

/// The most webhooks that are told of a change.
pub const MOST_WEBHOOKS: usize = 8;

/// The `Message-ID` of an e-mail, without angle brackets: the same at each attempt, so that a mail server that was left
/// after the dot recognises the copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(String);

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageKind {
    /// An e-mail that brings the key that was bought.
    Purchase,
    /// An e-mail that brings a key again, because the first one was lost.
    Resend,
    /// An e-mail that brings a buyer who lost them all keys of the address.
    Lost,
    /// An e-mail that brings the key that took the place of one whose text leaked.
    Successor,
    /// An e-mail that says that a key expires soon.
    Expiring,
    /// An e-mail that says that a key was revoked, since its payment was refunded.
    Revoked,
    /// A webhook: a key was issued.
    KeyIssued,
    /// A webhook: a key was revoked.
    KeyRevoked,
    /// A webhook: a revocation was lifted.
    KeyRestored,
    /// A webhook: a key has other terms.
    KeyChanged,
}

/// A message to queue in the commit of what it tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever issues or changes a key builds it")]
pub struct Notice {
    /// Its identity, which no other message has.
    pub id: MessageId,
    /// What it says.
    pub kind: MessageKind,
    /// Whom it goes to.
    pub to: Addressee,
}

/// Whom a message is for, before it is queued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Addressee {
    /// The address that the key was sold to.
    Buyer,
    /// A webhook.
    Webhook(WebhookName),
}

/// Whom a queued message goes to. As text, an e-mail address has an `@` and a webhook follows `webhook:`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recipient {
    /// A buyer.
    Email(Email),
    /// A webhook of the host's.
    Webhook(WebhookName),
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

impl FromStr for MessageId {
    type Err = Invalid;

    fn from_str(id: &str) -> Result<Self, Invalid> {
        Self::new(id)
    }
}

impl MessageKind {
    const ALL: [Self; 10] = [
        Self::Purchase,
        Self::Resend,
        Self::Lost,
        Self::Successor,
        Self::Expiring,
        Self::Revoked,
        Self::KeyIssued,
        Self::KeyRevoked,
        Self::KeyRestored,
        Self::KeyChanged,
    ];

    /// Whether the buyer has no key as long as it does not arrive.
    #[must_use]
    pub fn brings_key(self) -> bool {
        matches!(self, Self::Purchase | Self::Resend | Self::Lost | Self::Successor)
    }

    /// What its template is called, and what sellers see: an e-mail that brings all keys of an address is a `resend` too.
    #[must_use]
    pub fn template(self) -> &'static str {
        match self {
            Self::Lost => Self::Resend.as_str(),
            kind => kind.as_str(),
        }
    }

    /// The name that a store keeps; for a webhook also the `type` that its receiver reads.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Purchase => "purchase",
            Self::Resend => "resend",
            Self::Lost => "lost",
            Self::Successor => "successor",
            Self::Expiring => "expiring",
            Self::Revoked => "revoked",
            Self::KeyIssued => "key.issued",
            Self::KeyRevoked => "key.revoked",
            Self::KeyRestored => "key.restored",
            Self::KeyChanged => "key.changed",
        }
    }
}

impl Notice {
    /// The e-mail that brings a key to its buyer.
    #[must_use]
    pub fn purchase(id: MessageId) -> Self {
        Self::email(id, MessageKind::Purchase)
    }

    /// An e-mail to the buyer.
    #[must_use]
    pub fn email(id: MessageId, kind: MessageKind) -> Self {
        Self { id, kind, to: Addressee::Buyer }
    }
}

impl Addressee {
    /// The recipient, for a key that was sold to `buyer`.
    #[must_use]
    pub fn resolve(&self, buyer: &Email) -> Recipient {
        match self {
            Self::Buyer => Recipient::Email(buyer.clone()),
            Self::Webhook(name) => Recipient::Webhook(name.clone()),
        }
    }
}

/// What a stored recipient begins with if it is a webhook. No e-mail address has a colon.
const WEBHOOK: &str = "webhook:";

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Email(email) => f.write_str(email.as_str()),
            Self::Webhook(name) => write!(f, "{WEBHOOK}{name}"),
        }
    }
}

impl FromStr for Recipient {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.strip_prefix(WEBHOOK) {
            Some(name) => name.parse().map(Self::Webhook),
            None => text.parse().map(Self::Email),
        }
    }
}

impl Serialize for Recipient {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Recipient {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for MessageKind {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let named = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        named.ok_or(Invalid::expected("must be a kind of message"))
    }
}

crate::text::serde_as_text!(MessageId, MessageKind);
