//! Events of commerce platforms, kept before they are answered, and what they came to.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::key::KeyId;
use crate::order::{OrderId, Source};
use crate::text::Invalid;

crate::text::line_type! {
    /// A platform's name for an event, among those of the platform: 1 to 255 characters without control characters.
    EventName, 255
}

/// Identifies an event of a platform.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a pair")]
pub struct EventId {
    /// The platform.
    pub source: Source,
    /// Its name for the event.
    pub name: EventName,
}

/// An event as it was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct InboxEvent {
    /// Its number in the store: that of an event that was received later is greater.
    pub number: i64,
    /// Its identity.
    pub id: EventId,
    /// What the platform calls such an event; empty if it does not say.
    pub kind: String,
    /// The order or payment that it names.
    pub order: Option<OrderId>,
    /// What it says, as JSON, until it is done, and while it is dismissed; `None` after that, and if it cannot be read.
    pub body: Option<String>,
    /// When it was received, to the millisecond.
    pub received_at: DateTime<Utc>,
    /// What it came to; `None` if it was not applied yet.
    pub outcome: Option<EventOutcome>,
    /// Why it came to that, for the seller.
    pub reason: Option<String>,
    /// The keys that were issued or changed.
    pub keys: Vec<KeyId>,
    /// When it is to be applied, if nobody does before; `None` if it is done.
    pub due_at: Option<DateTime<Utc>>,
    /// How often it was tried.
    pub attempts: u32,
    /// How often the row was written.
    pub version: i64,
}

/// The reason of events that are dismissed.
pub(crate) const DISMISSED: &str = "dismissed";

impl InboxEvent {
    /// Whether it was [dismissed](super::Handling::Dismiss): whoever looks after the shop can have it applied after all.
    #[must_use]
    pub fn is_dismissed(&self) -> bool {
        self.outcome == Some(EventOutcome::Ignored) && self.reason.as_deref() == Some(DISMISSED)
    }
}

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventOutcome {
    /// A key was issued.
    Issued,
    /// A key lives longer, because its subscription was charged again or is paid for longer than was known.
    Renewed,
    /// A key lives shorter, because its subscription has ended or is paid for less than was known.
    Ended,
    /// Keys were revoked, or will not be issued.
    Revoked,
    /// Revocations were lifted, or will not be made.
    Restored,
    /// A part of the money went back; the key stays.
    PartialRefund,
    /// A customer's address was kept.
    Remembered,
    /// It waits for the seller.
    NeedsAttention,
    /// Nothing.
    Ignored,
}

/// A customer whose address a platform has told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "whoever receives builds it")]
pub struct Customer {
    /// The platform.
    pub source: Source,
    /// The platform's reference of the customer.
    pub reference: OrderId,
    /// The address.
    pub email: Email,
    /// When it was true. What is known to be newer stays.
    pub told_at: DateTime<Utc>,
}

/// Whether what an event says has this address as that of a buyer: alone, or in a text that is no address, such as one with a name
/// before it. An address that contains this one is another person's.
#[must_use]
pub fn names_buyer(body: &str, email: &Email) -> bool {
    fn says(value: &serde_json::Value, email: &str) -> bool {
        match value {
            serde_json::Value::Array(values) => values.iter().any(|value| says(value, email)),
            serde_json::Value::Object(members) => members.iter().any(|(name, value)| match value.as_str() {
                Some(text) => name == "email" && mentions(&text.to_ascii_lowercase(), email),
                None => says(value, email),
            }),
            _ => false,
        }
    }
    let email = email.as_str().to_ascii_lowercase();
    // What cannot be read is not kept for its address's sake.
    serde_json::from_str(body).map_or_else(|_| mentions(&body.to_ascii_lowercase(), &email), |body| says(&body, &email))
}

/// Whether `text` has `email` in it, and not as a part of a longer address.
fn mentions(text: &str, email: &str) -> bool {
    let is_local = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    text.match_indices(email).any(|(at, _)| {
        let (before, after) = (text.get(..at).unwrap_or_default(), text.get(at + email.len()..).unwrap_or_default());
        let mut next = after.chars();
        let goes_on = match next.next() {
            Some('.' | '-') => next.next().is_some_and(char::is_alphanumeric),
            Some(c) => c.is_alphanumeric(),
            None => false,
        };
        !before.chars().next_back().is_some_and(is_local) && !goes_on
    })
}

/// How the reason of an event begins that waits for a product.
pub const UNKNOWN_PRODUCT: &str = "no product has the reference ";

impl EventOutcome {
    pub(crate) const ALL: [Self; 9] = [
        Self::Issued,
        Self::Renewed,
        Self::Ended,
        Self::Revoked,
        Self::Restored,
        Self::PartialRefund,
        Self::Remembered,
        Self::NeedsAttention,
        Self::Ignored,
    ];

    /// The name on the wire and in a store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Renewed => "renewed",
            Self::Ended => "ended",
            Self::Revoked => "revoked",
            Self::Restored => "restored",
            Self::PartialRefund => "partial_refund",
            Self::Remembered => "remembered",
            Self::NeedsAttention => "needs_attention",
            Self::Ignored => "ignored",
        }
    }
}

impl FromStr for EventOutcome {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let named = Self::ALL.into_iter().find(|outcome| outcome.as_str() == name);
        named.ok_or(Invalid::expected("must be the outcome of an event"))
    }
}

crate::text::serde_as_text!(EventOutcome);
