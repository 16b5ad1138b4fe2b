//! The types of replies to the seller that are about messages, audit entries, figures and platform events. They are
//! serialized as JSON.

use std::cmp::Reverse;

use chrono::{NaiveDate, TimeDelta};
use serde::Serialize;

use crate::clock::timestamp;
use crate::key::{KeyId, Status};
use crate::ledger::{Amount, MessageNumber};
use crate::store::{AuditEntry, Day, Figures, MessageState, Page, StoredMessage};

/// Messages, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Messages<'a> {
    messages: Vec<ShownMessage<'a>>,
    /// The value of `before` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// An e-mail to a buyer, or a webhook of the host application.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(super) struct ShownMessage<'a> {
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
    /// When a message that waits to be sent is due. For a message that is being sent, the time from which another
    /// server may send it. `null` for a message that was sent or has failed.
    #[cfg_attr(test, schema(format = DateTime))]
    due_at: Option<String>,
    #[cfg_attr(test, schema(format = DateTime))]
    sent_at: Option<String>,
    #[cfg_attr(test, schema(format = DateTime))]
    failed_at: Option<String>,
    /// Why the last attempt failed. `null` if it did not fail.
    reason: Option<&'a str>,
}

/// Entries of the audit log, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = Events))]
pub(in crate::http) struct AuditLog<'a> {
    events: Vec<ShownEvent<'a>>,
    /// The value of `before` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// An entry of the audit log.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(super) struct ShownEvent<'a> {
    #[cfg_attr(test, schema(format = DateTime))]
    at: String,
    /// Who made the change: `admin`, the name of an admin token, a name that the host application chose, a platform
    /// such as `platform:stripe`, `buyer` or `system`.
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

/// Figures of each day, and the number of keys by product and by status.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Stats {
    /// One item for each day, today first.
    days: Vec<ShownDay>,
    products: Vec<OfProduct>,
    status: OfStatus,
    /// The amounts that platforms reported as paid for products that are sold here. There is one item for each day and
    /// currency with payments, newest day first. Refunds are not subtracted.
    revenue: Vec<OfDay>,
}

/// The amount that was paid on one day, in UTC, in one currency.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct OfDay {
    #[cfg_attr(test, schema(format = Date))]
    date: String,
    /// The amount, such as 12.50.
    amount: String,
    /// The currency, as an ISO 4217 code such as EUR.
    currency: String,
}

/// The number of keys issued, uses counted and keys revoked on one day, in UTC.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct ShownDay {
    #[cfg_attr(test, schema(format = Date))]
    date: String,
    issued: u64,
    uses: u64,
    revoked: u64,
}

/// The number of keys of a product. A rotated key is not counted, but its successor is.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct OfProduct {
    product_id: i64,
    keys: u64,
}

/// The number of keys by status. A rotated key is not counted, but its successor is.
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
    /// The value of `before` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    next: Option<String>,
}

/// An event of a platform.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(super) struct ShownEntry<'a> {
    id: String,
    platform: &'a str,
    event: &'a str,
    event_id: &'a str,
    order_id: Option<&'a str>,
    #[cfg_attr(test, schema(format = DateTime))]
    received_at: String,
    /// The outcome of the event. `null` if the event was not applied yet.
    outcome: Option<&'static str>,
    reason: Option<&'a str>,
    #[cfg_attr(test, schema(format = "uuid"))]
    key_id: Option<String>,
    /// The ids of the keys that the event issued or changed. Present only if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(required = false))]
    key_ids: Vec<String>,
}

impl<'a> Messages<'a> {
    pub(in crate::http) fn of(page: &'a Page<StoredMessage, MessageNumber>) -> Self {
        let messages = page.items.iter().map(ShownMessage::of).collect();
        Self { messages, next: page.next.map(|next| next.get().to_string()) }
    }
}

impl<'a> ShownMessage<'a> {
    pub(in crate::http) fn of(message: &'a StoredMessage) -> Self {
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

impl<'a> AuditLog<'a> {
    pub(in crate::http) fn of(page: &'a Page<AuditEntry, i64>) -> Self {
        let events = page.items.iter().map(ShownEvent::of).collect();
        Self { events, next: page.next.map(|next| next.to_string()) }
    }
}

impl<'a> ShownEvent<'a> {
    pub(in crate::http) fn of(entry: &'a AuditEntry) -> Self {
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
    pub(in crate::http) fn of(figures: &Figures, today: NaiveDate, days: u32) -> Self {
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
        let first = today.checked_sub_signed(TimeDelta::days(i64::from(days) - 1)).unwrap_or(today);
        let mut paid: Vec<_> = figures.revenue.iter().filter(|(date, _)| (first..=today).contains(date)).collect();
        paid.sort_by_key(|(date, amount)| (Reverse(*date), amount.currency));
        let of_day = |(date, amount): &(NaiveDate, Amount)| OfDay {
            date: date.to_string(),
            amount: amount.decimal(),
            currency: amount.currency.to_string(),
        };
        Self {
            days: dates.map(found).map(shown).collect(),
            products,
            status,
            revenue: paid.into_iter().map(of_day).collect(),
        }
    }
}

impl<'a> Inbox<'a> {
    pub(in crate::http) fn of(page: &'a Page<crate::ledger::InboxEvent, i64>) -> Self {
        let inbox = page.items.iter().map(ShownEntry::of).collect();
        Self { inbox, next: page.next.map(|next| next.to_string()) }
    }
}

impl<'a> ShownEntry<'a> {
    pub(super) fn of(entry: &'a crate::ledger::InboxEvent) -> Self {
        let keys = if entry.keys.len() > 1 { entry.keys.as_slice() } else { &[] };
        Self {
            id: entry.number.to_string(),
            platform: entry.id.source.as_str(),
            event: &entry.kind,
            event_id: entry.id.name.as_str(),
            order_id: entry.order.as_ref().map(crate::order::OrderId::as_str),
            received_at: timestamp(entry.received_at),
            outcome: entry.outcome.map(crate::ledger::EventOutcome::as_str),
            reason: entry.reason.as_deref(),
            key_id: entry.keys.first().map(KeyId::to_string),
            key_ids: keys.iter().map(KeyId::to_string).collect(),
        }
    }
}
