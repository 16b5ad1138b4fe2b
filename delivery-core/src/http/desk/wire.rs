//! The JSON that the seller's desk answers.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::Serialize;

use crate::clock::timestamp;
use crate::delivery::Issued;
use crate::key::{Key, KeyId, Reason, Status};
use crate::order::OrderRef;
use crate::store::{AuditEntry, Day, Figures, MessageNumber, MessageState, Page, StoredMessage, Subscribed, Use};

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

/// Messages, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Messages<'a> {
    messages: Vec<ShownMessage<'a>>,
    /// What `before` of the next page is; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// An e-mail, or a webhook of the host's.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct ShownMessage<'a> {
    id: String,
    kind: &'static str,
    #[cfg_attr(test, schema(format = "uuid"))]
    key_id: String,
    recipient: String,
    /// queued, sent or failed.
    state: &'static str,
    attempts: u32,
    #[cfg_attr(test, schema(format = DateTime))]
    queued_at: String,
    /// When it is due, if it waits; while it is being sent, when another server may take over.
    #[cfg_attr(test, schema(format = DateTime))]
    due_at: Option<String>,
    #[cfg_attr(test, schema(format = DateTime))]
    sent_at: Option<String>,
    #[cfg_attr(test, schema(format = DateTime))]
    failed_at: Option<String>,
    /// Why the last attempt failed.
    reason: Option<&'a str>,
}

/// Entries of the audit log, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Events<'a> {
    events: Vec<ShownEvent<'a>>,
    /// What `before` of the next page is; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// A change.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct ShownEvent<'a> {
    #[cfg_attr(test, schema(format = DateTime))]
    at: String,
    /// admin, the name of a token, platform:stripe and the like, buyer or system.
    actor: &'a str,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(format = "uuid", nullable = false))]
    key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    product_id: Option<i64>,
    detail: Option<&'a str>,
}

/// What happened, and how many keys there are.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Stats {
    /// Today first, each day once.
    days: Vec<ShownDay>,
    products: Vec<OfProduct>,
    status: OfStatus,
}

/// A day, in UTC.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct ShownDay {
    #[cfg_attr(test, schema(format = Date))]
    date: String,
    issued: u64,
    uses: u64,
    revoked: u64,
}

/// Keys of a product.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct OfProduct {
    product_id: i64,
    keys: u64,
}

/// Keys by status. A key that was rotated is counted as its successor.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct OfStatus {
    valid: u64,
    expired: u64,
    exhausted: u64,
    revoked: u64,
}

/// Events of platforms, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Inbox<'a> {
    inbox: Vec<ShownEntry<'a>>,
    /// What `before` of the next page is; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// An event of a platform.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct ShownEntry<'a> {
    id: String,
    platform: &'a str,
    event: &'a str,
    event_id: &'a str,
    order_id: Option<&'a str>,
    #[cfg_attr(test, schema(format = DateTime))]
    received_at: String,
    /// What it came to; null for the moment until it is applied.
    outcome: Option<&'static str>,
    reason: Option<&'a str>,
    #[cfg_attr(test, schema(format = "uuid"))]
    key_id: Option<String>,
    /// Where it concerns several keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(required = false))]
    key_ids: Vec<String>,
}

impl<'a> ShownKey<'a> {
    fn of(key: &'a Key, now: DateTime<Utc>) -> Self {
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
            remaining_uses: crate::http::wire::remaining(key),
            revoked_at: key.revoked_at().map(timestamp),
            revoked_reason: key.state().revoked.as_ref().and_then(|it| it.reason.as_ref()).map(Reason::as_str),
            subscription: None,
            paid_until: None,
        }
    }

    fn renewed_by(self, subscribed: Option<&'a Subscribed>) -> Self {
        let subscription = subscribed.map(|it| it.subscription.as_str());
        Self { subscription, paid_until: subscribed.and_then(|it| it.paid_until).map(timestamp), ..self }
    }
}

impl<'a> Keys<'a> {
    pub(super) fn of(page: &'a Page<Key, KeyId>, now: DateTime<Utc>) -> Self {
        let keys = page.items.iter().map(|key| ShownKey::of(key, now)).collect();
        Self { keys, next: page.next.map(|next| next.to_string()) }
    }
}

impl<'a> KeyHistory<'a> {
    pub(super) fn of(
        (key, subscribed): (&'a Key, Option<&'a Subscribed>),
        now: DateTime<Utc>,
        (uses, messages, events): (&'a [Use], &'a [StoredMessage], &'a [AuditEntry]),
    ) -> Self {
        Self {
            key: ShownKey::of(key, now).renewed_by(subscribed),
            uses: uses.iter().map(|used| ShownUse { at: timestamp(used.at) }).collect(),
            messages: messages.iter().map(ShownMessage::of).collect(),
            events: events.iter().map(ShownEvent::of).collect(),
        }
    }
}

impl<'a> ChangedKey<'a> {
    pub(super) fn of(key: &'a Key, now: DateTime<Utc>) -> Self {
        Self { success: true, key: ShownKey::of(key, now) }
    }
}

impl<'a> RotatedKey<'a> {
    pub(super) fn of(issued: &'a Issued, now: DateTime<Utc>) -> Self {
        Self { success: true, api_key: issued.text.expose(), key: ShownKey::of(&issued.key, now) }
    }
}

impl Done {
    pub(super) fn new() -> Self {
        Self { success: true }
    }
}

impl<'a> Messages<'a> {
    pub(super) fn of(page: &'a Page<StoredMessage, MessageNumber>) -> Self {
        let messages = page.items.iter().map(ShownMessage::of).collect();
        Self { messages, next: page.next.map(|next| next.get().to_string()) }
    }
}

impl<'a> ShownMessage<'a> {
    fn of(message: &'a StoredMessage) -> Self {
        let at = |state| (message.state == state).then(|| timestamp(message.at));
        Self {
            id: message.message.get().to_string(),
            kind: message.kind.template(),
            key_id: message.key.to_string(),
            recipient: message.recipient.to_string(),
            state: message.state.as_str(),
            attempts: message.attempts,
            queued_at: timestamp(message.queued_at),
            due_at: at(MessageState::Queued),
            sent_at: at(MessageState::Sent),
            failed_at: at(MessageState::Failed),
            reason: message.reason.as_deref(),
        }
    }
}

impl<'a> Events<'a> {
    pub(super) fn of(page: &'a Page<AuditEntry, i64>) -> Self {
        let events = page.items.iter().map(ShownEvent::of).collect();
        Self { events, next: page.next.map(|next| next.to_string()) }
    }
}

impl<'a> ShownEvent<'a> {
    fn of(entry: &'a AuditEntry) -> Self {
        Self {
            at: timestamp(entry.at),
            actor: entry.actor.as_str(),
            action: entry.action.as_str(),
            key_id: entry.key.map(|key| key.to_string()),
            product_id: entry.product.map(crate::product::ProductId::get),
            detail: entry.detail.as_deref(),
        }
    }
}

impl Stats {
    pub(super) fn of(figures: &Figures, today: NaiveDate, days: u32) -> Self {
        let found = |date| figures.days.iter().find(|day| day.date == date).copied().unwrap_or_else(|| Day::new(date));
        let dates = (0..days).filter_map(|ago| today.checked_sub_signed(TimeDelta::days(ago.into())));
        let shown =
            |Day { date, issued, uses, revoked }: Day| ShownDay { date: date.to_string(), issued, uses, revoked };
        let mut products: Vec<OfProduct> = Vec::new();
        let mut status = OfStatus::default();
        for (product, with, count) in &figures.keys {
            match products.iter_mut().find(|of| of.product_id == product.get()) {
                Some(of) => of.keys += count,
                None => products.push(OfProduct { product_id: product.get(), keys: *count }),
            }
            *match with {
                Status::Valid => &mut status.valid,
                Status::Expired => &mut status.expired,
                Status::Exhausted => &mut status.exhausted,
                Status::Revoked => &mut status.revoked,
            } += count;
        }
        products.sort_by_key(|of| of.product_id);
        Self { days: dates.map(found).map(shown).collect(), products, status }
    }
}

impl<'a> Inbox<'a> {
    pub(super) fn of(page: &'a Page<crate::store::InboxEvent, i64>) -> Self {
        let inbox = page.items.iter().map(ShownEntry::of).collect();
        Self { inbox, next: page.next.map(|next| next.to_string()) }
    }
}

impl<'a> ShownEntry<'a> {
    fn of(entry: &'a crate::store::InboxEvent) -> Self {
        let keys = if entry.keys.len() > 1 { entry.keys.as_slice() } else { &[] };
        Self {
            id: entry.number.to_string(),
            platform: entry.id.source.as_str(),
            event: &entry.kind,
            event_id: entry.id.name.as_str(),
            order_id: entry.order.as_ref().map(crate::order::OrderId::as_str),
            received_at: timestamp(entry.received_at),
            outcome: entry.outcome.map(crate::store::EventOutcome::as_str),
            reason: entry.reason.as_deref(),
            key_id: entry.keys.first().map(KeyId::to_string),
            key_ids: keys.iter().map(KeyId::to_string).collect(),
        }
    }
}
