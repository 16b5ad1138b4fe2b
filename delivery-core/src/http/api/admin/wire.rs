//! The types of replies to the seller that are about keys and their history. They are serialized as JSON.

mod records;

use chrono::{DateTime, Utc};
use serde::Serialize;

pub(in crate::http) use self::records::{Events, Inbox, Messages, Stats};
use self::records::{ShownEntry, ShownEvent, ShownMessage};
use crate::clock::timestamp;
use crate::delivery::Issued;
use crate::email::Email;
use crate::http::api::wire::Problem;
use crate::key::{Denied, Key, KeyId, Reason};
use crate::ledger::{Amount, Customer, InboxEvent, ReferenceKind};
use crate::order::OrderRef;
use crate::store::{AuditEntry, Page, StoredMessage, Subscribed, Use};

/// A key, without its text.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct ShownKey<'a> {
    #[cfg_attr(test, schema(format = "uuid"))]
    id: String,
    product_id: i64,
    customer_email: &'a str,
    /// Where it was bought; null for a key issued by hand.
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
    /// The subscription that renews it, as the platform calls it. Only where a key is shown with its history, and absent there if
    /// none renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    subscription: Option<&'a str>,
    /// Until when that subscription is paid, as far as an event has said so. The key expires some days of grace later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(format = DateTime, nullable = false))]
    paid_until: Option<String>,
    /// What was paid for its order, as the platform says, such as 12.50. Only where a key is shown with its history, and absent
    /// there if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    amount: Option<String>,
    /// The currency of that amount, by ISO 4217, such as EUR.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    currency: Option<String>,
    /// Why a rule of the host application does not allow the next use now. Only where a key is shown with its history, and
    /// absent there if no rule refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    denied: Option<Problem<'a>>,
}

/// Keys, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Keys<'a> {
    keys: Vec<ShownKey<'a>>,
    /// What `before` of the next page is; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// A key with the newest of its history.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct KeyHistory<'a> {
    key: ShownKey<'a>,
    uses: Vec<ShownUse>,
    messages: Vec<ShownMessage<'a>>,
    events: Vec<ShownEvent<'a>>,
}

/// What the shop knows of one person.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Person<'a> {
    customer_email: &'a str,
    keys: Vec<KnownKey<'a>>,
    messages: Vec<ShownMessage<'a>>,
    /// The changes of these keys, and those that corrected the address to another one.
    events: Vec<ShownEvent<'a>>,
    /// Events of platforms that concern these keys, or whose content names the address.
    inbox: Vec<KnownEntry<'a>>,
    customers: Vec<KnownCustomer<'a>>,
}

/// A key, when it was used, and the platform's names of its sale.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownKey<'a> {
    key: ShownKey<'a>,
    uses: Vec<ShownUse>,
    references: Vec<KnownReference<'a>>,
}

/// A platform's name of a part of a sale.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownReference<'a> {
    /// What it names: an order, a payment, an invoice, a subscription or a contract.
    kind: &'static str,
    reference: &'a str,
}

/// An event of a platform, and what was understood of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownEntry<'a> {
    event: ShownEntry<'a>,
    /// Null where nothing is kept that names the person: an event that is done keeps no content.
    content: Option<&'a str>,
}

/// How a platform calls the person.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct KnownCustomer<'a> {
    platform: &'a str,
    reference: &'a str,
    #[cfg_attr(test, schema(format = DateTime))]
    told_at: String,
}

/// A use.
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

/// It is done, or there was nothing to do.
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
    pub(in crate::http) fn of(
        (key, subscribed, total, denied): (&'a Key, Option<&'a Subscribed>, Option<Amount>, Option<&'a Denied>),
        now: DateTime<Utc>,
        (uses, messages, events): (&'a [Use], &'a [StoredMessage], &'a [AuditEntry]),
    ) -> Self {
        Self {
            key: ShownKey {
                denied: denied.map(Problem::denied),
                ..ShownKey::of(key, now).renewed_by(subscribed).paid_with(total)
            },
            uses: ShownUse::all(uses),
            messages: messages.iter().map(ShownMessage::of).collect(),
            events: events.iter().map(ShownEvent::of).collect(),
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
