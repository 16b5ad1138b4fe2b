//! Conversion of keys, messages, times and other things that pages show into values for the templates.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use minijinja::{Value, context};

use super::ApiError;
use super::form::{Form, FormError};
use crate::clock::timestamp;
use crate::delivery::Delivery;
use crate::http::Reply;
use crate::key::{Key, Status};
use crate::ledger::Recipient;
use crate::product::{Price, ProductId};
use crate::store::{AuditEntry, MessageState, StoredMessage, Subscribed, or_none};
use crate::terms::NEVER;

/// The periods that the overview can show: the number of days and the label. The first one is the default.
pub(super) const PERIODS: [(u32, &str); 4] = [(30, "30 days"), (7, "7 days"), (90, "90 days"), (365, "a year")];

/// The placeholder in a template for the HTML of a product's content. No template value can be mistaken for it, because
/// templates escape `<` in values.
pub(super) const CONTENT: &str = "<!--content-->";
/// The placeholder in a template for the source text of a product's content.
pub(super) const SOURCE: &str = "<!--source-->";

/// Converts the Markdown in the field `content` of a form to HTML. Returns `None` if `fault` is about this field.
///
/// # Errors
///
/// If the rendering panicked, and the seller has asked for a preview. If the seller has not asked for one, `None` is
/// returned instead, so that the seller can still edit the content.
pub(super) async fn preview(
    delivery: &Delivery,
    form: &Form,
    fault: Option<&FormError>,
) -> Result<Option<Value>, ApiError> {
    if fault.is_some_and(|fault| fault.is_about("content")) {
        return Ok(None);
    }
    let html = delivery.inner.shelf.preview(form.text("content").to_owned()).await;
    if html.is_none() && form.text("do") == "preview" {
        return Err(Reply::panicked().into());
    }
    Ok(html.map(Value::from_safe_string))
}

/// Formats a day without its year, such as `5 May`.
pub(super) fn day_and_month(date: NaiveDate) -> String {
    date.format("%-d %b").to_string()
}

/// Formats a day, such as `5 May 2026`.
pub(super) fn day(at: DateTime<Utc>) -> String {
    at.format("%-d %B %Y").to_string()
}

/// Returns a time as text for people, and in RFC 3339 for programs.
pub(super) fn time(at: DateTime<Utc>) -> Value {
    let text = format!("{}, {} UTC", day(at), at.format("%H:%M"));
    let (day, clock) = (at.format("%-d %b").to_string(), at.format("%H:%M").to_string());
    let iso = timestamp(crate::clock::whole_seconds(at));
    context! { iso, text, day, clock, year => at.year(), month => at.month(), day_of_month => at.day(), date => self::day(at) }
}

/// Shortens an identifier so that it fits into a column. If it has more than 22 characters, only its beginning and its
/// end are kept. The pages also contain the whole identifier.
pub(super) fn short(text: &str) -> String {
    let (begin, end) = (text.floor_char_boundary(12), text.ceil_char_boundary(text.len().saturating_sub(6)));
    if text.chars().count() <= 22 { text.to_owned() } else { format!("{}…{}", &text[..begin], &text[end..]) }
}

/// Returns the template values of the time when a key expires. For a key that never expires, the value is `none` in the
/// template.
pub(super) fn end(at: DateTime<Utc>) -> Value {
    if at < NEVER { time(at) } else { Value::from(()) }
}

/// Formats a price with at least two decimals, such as `12.50`.
pub(super) fn price(price: Price) -> String {
    let text = price.to_string();
    match text.split_once('.') {
        Some((_, cents)) if cents.len() == 1 => text + "0",
        Some(_) => text,
        None => text + ".00",
    }
}

/// Returns the name of a status, as pages show it.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Exhausted => "used up",
        status => status.as_str(),
    }
}

/// Returns the names of the products that are sold.
pub(super) async fn names(delivery: &Delivery) -> Result<BTreeMap<ProductId, String>, ApiError> {
    let listed = delivery.products().await?;
    Ok(listed.iter().map(|product| (product.id, product.name.clone())).collect())
}

/// Returns the names of archived products. The result is empty if the host application manages the products.
pub(super) async fn archived(delivery: &Delivery) -> Result<Vec<(ProductId, String)>, ApiError> {
    let archived = or_none(delivery.archived_products().await)?.unwrap_or_default();
    Ok(archived.into_iter().map(|product| (product.id, product.name)).collect())
}

/// Returns the names of the products that are sold, of archived products, and of the products of `keys`. The products
/// of `keys` are looked up one by one, because a host application that manages products elsewhere lists no archived
/// products.
pub(super) async fn all_names(delivery: &Delivery, keys: &[Key]) -> Result<BTreeMap<ProductId, String>, ApiError> {
    let mut all = names(delivery).await?;
    all.extend(archived(delivery).await?);
    for key in keys {
        if !all.contains_key(&key.product())
            && let Some(product) = delivery.product(key.product()).await?
        {
            all.insert(product.id(), product.name().to_owned());
        }
    }
    Ok(all)
}

/// Returns how often a key was used, and its limit.
pub(super) fn uses(key: &Key) -> String {
    match key.limit().as_count() {
        -1 => format!("{} / ∞", key.used()),
        most => format!("{} / {most}", key.used()),
    }
}

/// Returns the template values for showing a key in the list of keys, and on the key's own page.
pub(super) fn key(key: &Key, now: DateTime<Utc>, names: &BTreeMap<ProductId, String>) -> Value {
    let (granted, state) = (key.granted(), key.state());
    let name = names.get(&key.product()).cloned().unwrap_or_else(|| format!("product {}", key.product()));
    let revoked = state.revoked.as_ref();
    context! {
        id => key.id().to_string(),
        email => key.email().as_str(),
        product => name,
        product_id => key.product().get(),
        order => granted.order.as_ref().map(|order| order.id.as_str()),
        short_order => granted.order.as_ref().map(|order| short(order.id.as_str())),
        source => granted.order.as_ref().map(|order| order.source.as_str()),
        status => status(key.status(now)),
        uses => uses(key),
        used => key.used(),
        issued_at => time(granted.issued_at),
        expires_at => end(key.expires_at()),
        revoked_at => revoked.map(|revoked| time(revoked.at)),
        revoked_reason => revoked.and_then(|revoked| revoked.reason.as_ref()).map(|reason| reason.as_str().to_owned()),
        successor => key.successor().map(|id| id.to_string()),
    }
}

/// Returns the template values of the subscription whose payments extend a key.
pub(super) fn subscription(subscribed: &Subscribed) -> Value {
    context! { name => subscribed.subscription.as_str(), paid_until => subscribed.paid_until.map(time) }
}

/// Returns the template values of a message. `reaches_nobody` is `true` if e-mails are only written to files.
pub(super) fn message(message: &StoredMessage, reaches_nobody: bool) -> Value {
    let is_written = reaches_nobody && matches!(message.recipient, Recipient::Email(_));
    let (state, happened) = match message.state {
        MessageState::Queued => (MessageState::Queued.as_str(), "to be sent"),
        MessageState::Sent if is_written => ("written", "written to a file, and sent to nobody"),
        MessageState::Sent => (MessageState::Sent.as_str(), "taken by the mail server"),
        MessageState::Failed => (MessageState::Failed.as_str(), "given up"),
    };
    context! {
        id => message.message.get().to_string(),
        recipient => message.recipient.to_string(),
        kind => message.kind.template(),
        state,
        key => message.key.to_string(),
        queued_at => time(message.queued_at),
        happened,
        at => time(message.at),
        reason => message.reason.clone(),
    }
}

pub(super) fn entry(entry: &AuditEntry) -> Value {
    context! {
        at => time(entry.at),
        actor => entry.actor.as_str(),
        action => entry.action.as_str().replace('_', " "),
        key => entry.key.map(|id| id.to_string()),
        product => entry.product.map(ProductId::get),
        detail => entry.detail.clone(),
    }
}
