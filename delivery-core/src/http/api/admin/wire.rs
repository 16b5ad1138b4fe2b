//! The types of replies to the seller that are about keys and their history. They are serialized as JSON.

mod records;

use chrono::{DateTime, Utc};
use serde::Serialize;

pub(in crate::http) use self::records::{AuditLog, Inbox, Messages, Stats};
use self::records::{ShownEntry, ShownEvent, ShownMessage};
use crate::clock::timestamp;
use crate::delivery::Issued;
use crate::email::Email;
use crate::http::api::wire::Problem;
use crate::key::{Key, KeyId, Reason};
use crate::ledger::{Amount, Customer, InboxEvent, ReferenceKind};
use crate::order::OrderRef;
use crate::store::{Page, Subscribed, Use};

/// A key, without its text.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct ShownKey<'a> {
    #[cfg_attr(test, schema(format = "uuid"))]
    id: String,
    product_id: i64,
    customer_email: &'a str,
    /// The source of the order, such as `stripe`; null for a key issued by hand.
    source: Option<&'a str>,
    order_id: Option<&'a str>,
    /// valid, expired, exhausted or revoked.
    status: &'static str,
    #[cfg_attr(test, schema(format = DateTime))]
    issued_at: String,
    /// UTC, in whole seconds; 9999-12-31T23:59:59Z for a key that never expires.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: String,
    /// -1: unlimited.
    max_uses: i64,
    used_count: u64,
    /// -1: unlimited.
    remaining_uses: i64,
    #[cfg_attr(test, schema(format = DateTime))]
    revoked_at: Option<String>,
    revoked_reason: Option<&'a str>,
    /// The platform's name for the subscription that renews the key. Present only if the key is shown with its history
    /// and a subscription renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    subscription: Option<&'a str>,
    /// The time until which that subscription is paid. Absent if no event has reported it. The key expires later, after
    /// some days of grace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(format = DateTime, nullable = false))]
    paid_until: Option<String>,
    /// The amount that was paid for the key's order, as the platform reported it, such as 12.50. Present only if the
    /// key is shown with its history and the amount is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    amount: Option<String>,
    /// The currency of `amount`, as an ISO 4217 code such as EUR.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    currency: Option<String>,
    /// Why a rule of the host application would refuse a use of the key now. Present only if the key is shown with its
    /// history and a rule would refuse the use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    denied: Option<Problem<'a>>,
}

/// Keys, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Keys<'a> {
    keys: Vec<ShownKey<'a>>,
    /// The value of `before` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// A key with its newest uses, messages and audit entries, at most 50 of each.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct KeyHistory<'a> {
    key: ShownKey<'a>,
    uses: Vec<ShownUse>,
    messages: Vec<ShownMessage<'a>>,
    events: Vec<ShownEvent<'a>>,
}

/// The data that the shop has about one person.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Person<'a> {
    customer_email: &'a str,
    keys: Vec<KnownKey<'a>>,
    messages: Vec<ShownMessage<'a>>,
    /// The audit entries about these keys, and the entries that record a change from this address to another one.
    events: Vec<ShownEvent<'a>>,
    /// The platform events about these keys, and the platform events whose content names the person.
    inbox: Vec<KnownEntry<'a>>,
    customers: Vec<KnownCustomer<'a>>,
}

/// A key, its uses, and the platform's references to its sale.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownKey<'a> {
    key: ShownKey<'a>,
    uses: Vec<ShownUse>,
    references: Vec<KnownReference<'a>>,
}

/// A platform's reference to a part of a sale.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownReference<'a> {
    /// What the reference names: `order`, `payment`, `invoice` or `subscription`.
    kind: &'static str,
    reference: &'a str,
}

/// A platform event and its content.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownEntry<'a> {
    event: ShownEntry<'a>,
    /// The content of the event, as JSON text. `null` if the content does not name the person, if it could not be read,
    /// or if it was deleted because the event is done.
    content: Option<&'a str>,
}

/// The name that a platform uses for the person as a customer.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownCustomer<'a> {
    platform: &'a str,
    reference: &'a str,
    #[cfg_attr(test, schema(format = DateTime))]
    told_at: String,
}

/// A use of a key: when it was counted.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct ShownUse {
    #[cfg_attr(test, schema(format = DateTime))]
    at: String,
}

/// The key after the change.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct ChangedKey<'a> {
    success: bool,
    key: ShownKey<'a>,
}

/// The successor of a key, with its text.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct RotatedKey<'a> {
    success: bool,
    api_key: &'a str,
    key: ShownKey<'a>,
}

/// The change was made, or there was nothing to change.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Done {
    success: bool,
}

impl<'a> ShownKey<'a> {
    pub(in crate::http) fn of(key: &'a Key, now: DateTime<Utc>) -> Self {
        let order = key.granted().order.as_ref();
        Self {
            id: key.id().to_string(),
            product_id: key.product().get(),
            customer_email: key.email().as_str(),
            source: order.map(|order: &OrderRef| order.source.as_str()),
            order_id: order.map(|order| order.id.as_str()),
            status: key.status(now).as_str(),
            issued_at: timestamp(key.granted().issued_at),
            expires_at: timestamp(key.expires_at()),
            max_uses: key.limit().as_count(),
            used_count: key.used(),
            remaining_uses: crate::http::api::wire::remaining(key),
            revoked_at: key.revoked_at().map(timestamp),
            revoked_reason: key.state().revoked.as_ref().and_then(|it| it.reason.as_ref()).map(Reason::as_str),
            subscription: None,
            paid_until: None,
            amount: None,
            currency: None,
            denied: None,
        }
    }

    fn paid_with(self, total: Option<Amount>) -> Self {
        let currency = total.map(|total| total.currency.to_string());
        Self { amount: total.map(|total| total.decimal()), currency, ..self }
    }

    fn renewed_by(self, subscribed: Option<&'a Subscribed>) -> Self {
        let subscription = subscribed.map(|it| it.subscription.as_str());
        Self { subscription, paid_until: subscribed.and_then(|it| it.paid_until).map(timestamp), ..self }
    }
}

impl<'a> Person<'a> {
    pub(in crate::http) fn of(email: &'a Email, known: &'a crate::delivery::Person, now: DateTime<Utc>) -> Self {
        let reference =
            |(kind, name): &'a (ReferenceKind, String)| KnownReference { kind: kind.as_str(), reference: name };
        let key = |known: &'a crate::delivery::KnownKey| KnownKey {
            key: ShownKey::of(&known.key, now),
            uses: ShownUse::all(&known.uses),
            references: known.references.iter().map(reference).collect(),
        };
        let entry = |event: &'a InboxEvent| KnownEntry { event: ShownEntry::of(event), content: event.body.as_deref() };
        let customer = |customer: &'a Customer| KnownCustomer {
            platform: customer.source.as_str(),
            reference: customer.reference.as_str(),
            told_at: timestamp(customer.told_at),
        };
        Self {
            customer_email: email.as_str(),
            keys: known.keys.iter().map(key).collect(),
            messages: known.messages.iter().map(ShownMessage::of).collect(),
            events: known.changes.iter().map(ShownEvent::of).collect(),
            inbox: known.events.iter().map(entry).collect(),
            customers: known.customers.iter().map(customer).collect(),
        }
    }
}

impl<'a> Keys<'a> {
    pub(in crate::http) fn of(page: &'a Page<Key, KeyId>, now: DateTime<Utc>) -> Self {
        let keys = page.items.iter().map(|key| ShownKey::of(key, now)).collect();
        Self { keys, next: page.next.map(|next| next.to_string()) }
    }
}

impl<'a> KeyHistory<'a> {
    pub(in crate::http) fn of(history: &'a crate::delivery::KeyHistory, now: DateTime<Utc>) -> Self {
        let key = ShownKey::of(&history.key, now).renewed_by(history.subscribed.as_ref()).paid_with(history.total);
        Self {
            key: ShownKey { denied: history.denied.as_ref().map(Problem::denied), ..key },
            uses: ShownUse::all(&history.uses),
            messages: history.messages.iter().map(ShownMessage::of).collect(),
            events: history.audit.iter().map(ShownEvent::of).collect(),
        }
    }
}

impl ShownUse {
    fn all(uses: &[Use]) -> Vec<Self> {
        uses.iter().map(|used| Self { at: timestamp(used.at) }).collect()
    }
}

impl<'a> ChangedKey<'a> {
    pub(in crate::http) fn of(key: &'a Key, now: DateTime<Utc>) -> Self {
        Self { success: true, key: ShownKey::of(key, now) }
    }
}

impl<'a> RotatedKey<'a> {
    pub(in crate::http) fn of(issued: &'a Issued, now: DateTime<Utc>) -> Self {
        Self { success: true, api_key: issued.text.expose(), key: ShownKey::of(&issued.key, now) }
    }
}

impl Done {
    pub(super) fn new() -> Self {
        Self { success: true }
    }
}
