//! Events of commerce platforms, and their outcomes. An event is stored before the platform gets its answer.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::deal::{REFUNDED, ReferenceKind};
use crate::email::Email;
use crate::key::KeyId;
use crate::order::{OrderId, Source};

crate::text::line_type! {
    /// A platform's name for an event, unique among the platform's events: 1 to 255 characters without control
    /// characters.
    EventName, 255
}

/// The identity of a platform event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct EventId {
    /// The platform.
    pub source: Source,
    /// The platform's name for the event.
    pub name: EventName,
}

/// A platform event in the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct InboxEvent {
    /// The event's number in the store. An event that was received in a later second has a greater number.
    pub number: i64,
    /// The event's identity.
    pub id: EventId,
    /// The platform's name for this kind of event; empty if the platform does not give one.
    pub kind: String,
    /// The order, payment or subscription that the event is about; `None` if the event names none of these.
    pub order: Option<OrderId>,
    /// The event's content as JSON; `None` if the content cannot be read or was deleted. The content is deleted when
    /// the event is done. It is kept if the event was dismissed, is about a test purchase, or is about a sale whose
    /// refund was reported first and may still fail.
    pub body: Option<String>,
    /// When the event was received, to the millisecond.
    pub received_at: DateTime<Utc>,
    /// The event's outcome; `None` if the event was not applied yet.
    pub outcome: Option<EventOutcome>,
    /// The reason for the outcome, for the seller.
    pub reason: Option<String>,
    /// The keys that the event issued or changed.
    pub keys: Vec<KeyId>,
    /// When the event is applied automatically, if nobody applies it earlier. `None` if the event is done.
    pub due_at: Option<DateTime<Utc>>,
    /// How often the event was leased to be applied automatically. The count restarts when waiting events are made due
    /// early, for example because a product was added.
    pub attempts: u32,
    /// The row's version: how often it was written.
    pub version: i64,
}

/// The [`reason`](InboxEvent::reason) of a dismissed event. Stored events and SQL contain this text, so it must not
/// change.
pub(crate) const DISMISSED: &str = "dismissed";

/// The [`reason`](InboxEvent::reason) of an event that is ignored because it is about a test purchase. Stored events
/// and SQL contain this text, so it must not change.
pub(crate) const TEST_PURCHASE: &str = "it is about a test purchase";

impl InboxEvent {
    /// Returns whether the event was [dismissed](super::Handling::Dismiss).
    #[must_use]
    pub fn is_dismissed(&self) -> bool {
        self.outcome == Some(EventOutcome::Ignored) && self.reason.as_deref() == Some(DISMISSED)
    }

    /// Returns whether the event is ignored because it is about a [test purchase](super::Handling::Test).
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.outcome == Some(EventOutcome::Ignored) && self.reason.as_deref() == Some(TEST_PURCHASE)
    }

    /// Returns whether the seller can still apply the event. This is so if one of these is true:
    ///
    /// - The event is not done.
    /// - The event was dismissed.
    /// - The event still has its content, and is about a test purchase.
    /// - The event still has its content, and is about a sale whose refund was reported first and may still fail.
    #[must_use]
    pub fn can_be_applied(&self) -> bool {
        let is_refunded = self.outcome == Some(EventOutcome::Ignored) && self.reason.as_deref() == Some(REFUNDED);
        self.due_at.is_some() || self.is_dismissed() || (self.is_test() || is_refunded) && self.body.is_some()
    }
}

crate::text::names! {
    /// The outcome of an event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum EventOutcome, "must be the outcome of an event", {
        /// A key was issued.
        Issued = "issued",
        /// A key's validity was extended, because its subscription was charged again or turned out to be paid for
        /// longer.
        Renewed = "renewed",
        /// A key's validity was shortened, because its subscription ended or turned out to be paid for less.
        Ended = "ended",
        /// Keys were revoked, or will not be issued for a sale that is reported later.
        Revoked = "revoked",
        /// Revocations were lifted, or will not be made.
        Restored = "restored",
        /// A part of the payment was refunded; the key stays valid.
        PartialRefund = "partial_refund",
        /// A customer's address was stored.
        Remembered = "remembered",
        /// The event cannot be applied yet. It is tried again later, and the seller may have to do something first.
        NeedsAttention = "needs_attention",
        /// The event has no effect.
        Ignored = "ignored",
    }
}

crate::text::serde_as_text!(EventOutcome);

/// The [`reason`](InboxEvent::reason) of an event that waits because the platform gave no usable address of the buyer.
pub const NO_ADDRESS: &str = "it has no e-mail address that a key can be sent to";

/// A customer whose address a platform has reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct Customer {
    /// The platform.
    pub source: Source,
    /// The platform's reference to the customer.
    pub reference: OrderId,
    /// The customer's address.
    pub email: Email,
    /// The time at which the platform reported this address. A stored address with a later time is not replaced.
    pub told_at: DateTime<Utc>,
}

/// Returns whether the content of an event names `email` as a buyer's address. Only JSON members named `email` count.
/// The value of the member may be the address alone, or contain other text too, such as a name. A longer address that
/// contains `email` does not count, because it is another person's. Content that is not JSON is searched as a whole.
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
    // A body that is not JSON has no members, so all of it is searched. Otherwise, its addresses would be overlooked.
    serde_json::from_str(body).map_or_else(|_| mentions(&body.to_ascii_lowercase(), &email), |body| says(&body, &email))
}

/// Returns whether the content of an event names a customer by the platform's reference. The content must be JSON
/// without spaces around colons, which is how it is stored.
#[must_use]
pub fn names_customer(body: &str, reference: &OrderId) -> bool {
    body.contains(&format!("\"customer\":{}", serde_json::Value::from(reference.as_str())))
}

/// Returns the references to sales in the content of an event: the JSON members that are called like a
/// [kind of reference](ReferenceKind) and have a text as their value. Content that is not JSON has none.
#[must_use]
pub fn sales_named(body: &str) -> BTreeSet<(ReferenceKind, OrderId)> {
    fn collect(value: &serde_json::Value, found: &mut BTreeSet<(ReferenceKind, OrderId)>) {
        match value {
            serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            serde_json::Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
                Some(text) => found.extend(name.parse::<ReferenceKind>().ok().zip(text.parse::<OrderId>().ok())),
                None => collect(value, found),
            }),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    if let Ok(body) = serde_json::from_str(body) {
        collect(&body, &mut found);
    }
    found
}

/// Returns whether `text` contains `email` as a whole address, not only as a part of a longer one.
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

/// The text with which an event's [`reason`](InboxEvent::reason) begins if the event waits for the seller to add a
/// product.
pub const UNKNOWN_PRODUCT: &str = "no product has the reference ";
