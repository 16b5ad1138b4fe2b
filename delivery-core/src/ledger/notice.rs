//! The identity, kind and recipient of a message.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::text::{Invalid, line};

crate::text::line_type! {
    /// The name of one of the host application's webhooks: 1 to 64 characters without control characters. Queued
    /// messages for the webhook are stored under this name.
    WebhookName, 64
}

/// The maximum number of webhooks that are notified of a change.
pub const MOST_WEBHOOKS: usize = 8;

/// The identity of a message: the `Message-ID` of an e-mail, without angle brackets. A webhook sends the part before
/// the `@` in the header `webhook-id`. The identity is the same at each attempt. If a receiver accepts the message just
/// before the connection breaks, the receiver can thus recognise the next attempt as a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(String);

crate::text::names! {
    /// The kind of a message.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum MessageKind, "must be a kind of message", {
        /// An e-mail that delivers the key that was bought.
        Purchase = "purchase",
        /// An e-mail that delivers a key again, because the seller resends it.
        Resend = "resend",
        /// An e-mail to a buyer who lost their keys. It delivers all keys that were issued to the buyer's address.
        Lost = "lost",
        /// An e-mail that delivers the key that replaced a leaked key.
        Successor = "successor",
        /// An e-mail that announces that a key expires soon.
        Expiring = "expiring",
        /// An e-mail that announces that a key was revoked because its payment was refunded.
        Revoked = "revoked",
        /// A webhook: a key was issued.
        KeyIssued = "key.issued",
        /// A webhook: a key was revoked.
        KeyRevoked = "key.revoked",
        /// A webhook: a revocation was lifted.
        KeyRestored = "key.restored",
        /// A webhook: the terms of a key were changed.
        KeyChanged = "key.changed",
    }
}

/// A message to queue in the same transaction as the change that it announces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct Notice {
    /// The message's identity, unique among all messages.
    pub id: MessageId,
    /// The kind of message.
    pub kind: MessageKind,
    /// The buyer or the webhook that receives the message.
    pub to: Addressee,
}

/// The recipient of a message before it is queued, when the buyer's address is not resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Addressee {
    /// The key's buyer, at the key's current e-mail address.
    Buyer,
    /// A webhook of the host application.
    Webhook(WebhookName),
}

/// The recipient of a queued message. As text: an e-mail address, or `webhook:` followed by the webhook's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recipient {
    /// The e-mail address of a buyer.
    Email(Email),
    /// A webhook of the host application.
    Webhook(WebhookName),
}

impl MessageId {
    /// Parses `left@right`, without angle brackets.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `id` is not 3 to 250 visible ASCII characters, if it has no `@` between other characters, or if
    /// it has angle brackets.
    pub fn new(id: impl Into<String>) -> Result<Self, Invalid> {
        let id = id.into();
        let visible = line(&id, 3, 250) && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>".contains(&byte));
        if visible && id.trim_matches('@').contains('@') {
            Ok(Self(id))
        } else {
            Err(Invalid::expected("must be left@right in visible ASCII"))
        }
    }

    /// Returns the identifier without angle brackets.
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
    /// Returns whether the message delivers a key. If so, the buyer does not have the key until the message arrives.
    #[must_use]
    pub fn brings_key(self) -> bool {
        match self {
            Self::Purchase | Self::Resend | Self::Lost | Self::Successor => true,
            Self::Expiring
            | Self::Revoked
            | Self::KeyIssued
            | Self::KeyRevoked
            | Self::KeyRestored
            | Self::KeyChanged => false,
        }
    }

    /// Returns the name of the e-mail's template. For [`Lost`](Self::Lost), this is `resend`, because both kinds share
    /// that template. For a webhook, which has no template, this is the kind's own name. The seller's web pages and the
    /// admin API show the name as the kind of the message.
    #[must_use]
    pub fn template(self) -> &'static str {
        match self {
            Self::Lost => Self::Resend.as_str(),
            kind => kind.as_str(),
        }
    }
}

impl Notice {
    /// Creates the e-mail that delivers a key to its buyer.
    #[must_use]
    pub fn purchase(id: MessageId) -> Self {
        Self::email(id, MessageKind::Purchase)
    }

    /// Creates an e-mail to the buyer.
    #[must_use]
    pub fn email(id: MessageId, kind: MessageKind) -> Self {
        Self { id, kind, to: Addressee::Buyer }
    }
}

impl Addressee {
    /// Returns the recipient of the message: the address `buyer` for [`Self::Buyer`], the named webhook for
    /// [`Self::Webhook`].
    #[must_use]
    pub fn resolve(&self, buyer: &Email) -> Recipient {
        match self {
            Self::Buyer => Recipient::Email(buyer.clone()),
            Self::Webhook(name) => Recipient::Webhook(name.clone()),
        }
    }
}

impl Recipient {
    /// Returns [`Addressee::Buyer`] for [`Self::Email`], and the named webhook for [`Self::Webhook`].
    #[must_use]
    pub fn addressee(&self) -> Addressee {
        match self {
            Self::Email(_) => Addressee::Buyer,
            Self::Webhook(name) => Addressee::Webhook(name.clone()),
        }
    }
}

/// The prefix of a stored recipient that is a webhook. No e-mail address begins with it, because no e-mail address
/// contains a colon.
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

crate::text::serde_as_text!(MessageId, MessageKind);
