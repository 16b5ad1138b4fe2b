//! What pages show, as values of templates.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use minijinja::{Value, context};

use super::{PageError, PageRequest, SignedIn};
use crate::clock::timestamp;
use crate::delivery::{Delivery, Recent};
use crate::http::{Reply, query};
use crate::key::{Key, Status};
use crate::product::ProductId;
use crate::store::{AuditEntry, MessageState, StoredMessage, Subscribed};
use crate::terms::NEVER;

/// How many rows a page of a list has.
pub(super) const PAGE: usize = 50;

/// Days that are plotted.
pub(super) const DAYS: u32 = 30;

/// Where the desk's navigation leads.
const NAV: &[(&str, &str)] = &[
    ("/desk", "Overview"),
    ("/desk/keys", "Keys"),
    ("/desk/products", "Products"),
    ("/desk/posts", "Posts"),
    ("/desk/messages", "Messages"),
    ("/desk/events", "Platform events"),
    ("/desk/audit", "Audit log"),
    ("/desk/setup", "Setup"),
];

/// What every page of the desk has: who is signed in, where the page stands, and what was just done.
pub(super) fn desk(visit: &PageRequest<'_>, seller: &SignedIn, here: &str) -> Value {
    let done = query::parameter(visit.call, "done").ok().flatten();
    // Only sentences of ours: whoever makes a link cannot put words into the page.
    let notice = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done).map(|(_, sentence)| *sentence));
    context! {
        seller => context! {
            nav => NAV.to_vec(), here, csrf => seller.csrf.clone(), signs_out => seller.session.is_some(), name => seller.actor.as_str()
        },
        notice, fault => Value::from(()), faulty => "",
    }
}

/// What was done before the page was shown.
const DONE: &[(&str, &str)] = &[
    ("revoked", "The key is revoked."),
    ("restored", "The key can be used again."),
    ("changed", "The key has its new terms."),
    ("resent", "The e-mail is on its way."),
    ("saved", "Saved."),
    ("archived", "The product is no longer sold."),
    ("deleted", "The post is deleted."),
    ("retried", "The message is sent again."),
    ("nothing", "Nothing was to be done: this message no longer waits."),
    ("applied", "The event was applied: below is the result."),
    ("mailed", "The mail server took the test e-mail."),
    ("erased", "The person is forgotten."),
];

/// Where the content of a product stands in a page. Nobody else can write it there, since what they write is escaped.
pub(super) const CONTENT: &str = "<!--content-->";
/// Where its source stands.
pub(super) const SOURCE: &str = "<!--source-->";

/// Markdown that a seller has typed, as HTML.
pub(super) async fn preview(delivery: &Delivery, markdown: &str) -> Result<Value, PageError> {
    let html = delivery.inner.shelf.preview(markdown.to_owned()).await;
    html.map(Value::from_safe_string).ok_or_else(|| Reply::panicked().into())
}

/// A day without its year.
pub(super) fn day_and_month(date: NaiveDate) -> String {
    let month = MONTHS.get(date.month0() as usize).copied().unwrap_or_default();
    format!("{} {month}", date.day())
}

/// A day.
pub(super) fn day(at: DateTime<Utc>) -> String {
    format!("{} {}", day_and_month(at.date_naive()), at.year())
}

/// A time, for people and for programs.
pub(super) fn time(at: DateTime<Utc>) -> Value {
    let text = format!("{}, {} UTC", day(at), at.format("%H:%M"));
    context! { iso => timestamp(crate::clock::whole_seconds(at)), text }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The end of a key; none if it has none.
pub(super) fn end(at: DateTime<Utc>) -> Value {
    if at < NEVER { time(at) } else { Value::from(()) }
}

/// How a status is called.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Exhausted => "used up",
        status => status.as_str(),
    }
}

/// What products are called, for lists that name many.
pub(super) async fn names(delivery: &Delivery) -> Result<BTreeMap<ProductId, String>, PageError> {
    let listed = delivery.products().await?;
    Ok(listed.iter().map(|product| (product.id, product.name.clone())).collect())
}

/// What products are called that are no longer sold and of which there are keys, as far as these are counted.
pub(super) async fn archived(delivery: &Delivery) -> Result<BTreeMap<ProductId, String>, PageError> {
    let Recent::Known(_, figures) = delivery.recent_figures(DAYS).await else { return Ok(BTreeMap::new()) };
    let (listed, mut archived) = (delivery.products().await?, BTreeMap::new());
    for (id, ..) in &figures.keys {
        let is_listed = listed.binary_search_by_key(id, |product| product.id).is_ok();
        if !is_listed
            && !archived.contains_key(id)
            && let Some(product) = delivery.product(*id).await?
        {
            archived.insert(*id, product.name().to_owned());
        }
    }
    Ok(archived)
}

/// What products are called, sold or not.
pub(super) async fn all_names(delivery: &Delivery) -> Result<BTreeMap<ProductId, String>, PageError> {
    let mut all = names(delivery).await?;
    all.extend(archived(delivery).await?);
    Ok(all)
}

/// The products of a list to choose from.
pub(super) fn choices(names: &BTreeMap<ProductId, String>) -> Vec<(String, String)> {
    names.iter().map(|(id, name)| (id.to_string(), format!("{name} ({id})"))).collect()
}

/// A key in a list, and on its own page.
pub(super) fn key(key: &Key, now: DateTime<Utc>, names: &BTreeMap<ProductId, String>) -> Value {
    let (granted, state) = (key.granted(), key.state());
    let uses = match key.limit().as_count() {
        -1 => format!("{}, without a limit", key.used()),
        most => format!("{} of {most}", key.used()),
    };
    let name = names.get(&key.product()).cloned().unwrap_or_else(|| format!("product {}", key.product()));
    let revoked = state.revoked.as_ref();
    context! {
        id => key.id().to_string(),
        email => key.email().as_str(),
        product => name,
        product_id => key.product().get(),
        order => granted.order.as_ref().map(|order| order.id.as_str()),
        source => granted.order.as_ref().map(|order| order.source.as_str()),
        status => status(key.status(now)),
        uses,
        issued_at => time(granted.issued_at),
        expires_at => end(key.expires_at()),
        revoked_at => revoked.map(|revoked| time(revoked.at)),
        revoked_reason => revoked.and_then(|revoked| revoked.reason.as_ref()).map(|reason| reason.as_str().to_owned()),
        successor => key.successor().map(|id| id.to_string()),
    }
}

/// The subscription that renews a key.
pub(super) fn subscription(subscribed: &Subscribed) -> Value {
    context! { name => subscribed.subscription.as_str(), paid_until => subscribed.paid_until.map(time) }
}

pub(super) fn message(message: &StoredMessage) -> Value {
    let (happened, at) = match message.state {
        MessageState::Queued => ("to be sent", Some(message.at)),
        MessageState::Sent => ("taken by the mail server", Some(message.at)),
        MessageState::Failed => ("given up", Some(message.at)),
    };
    context! {
        id => message.message.get().to_string(),
        recipient => message.recipient.to_string(),
        kind => message.kind.template(),
        state => message.state.as_str(),
        key => message.key.to_string(),
        queued_at => time(message.queued_at),
        happened,
        at => at.map(time),
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

/// Where the page after this one is: the same address with another `before`.
pub(super) fn next(path: &str, filters: &[(&str, &str)], before: Option<String>) -> Option<String> {
    let before = before?;
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(filters.iter().filter(|(_, value)| !value.is_empty())).append_pair("before", &before);
    Some(format!("{path}?{}", query.finish()))
}

/// A parameter of the address, read by `T`; what makes no sense is refused.
pub(super) fn parameter<T: std::str::FromStr>(visit: &PageRequest<'_>, name: &str) -> Result<Option<T>, PageError> {
    let Some(text) = query::parameter(visit.call, name).map_err(|_| PageError::Malformed)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| PageError::Malformed)
}

/// A product's number in the address.
pub(super) fn product_id(visit: &PageRequest<'_>, name: &str) -> Result<Option<ProductId>, PageError> {
    let number: Option<i64> = parameter(visit, name)?;
    number.map(ProductId::new).transpose().map_err(|_| PageError::Malformed)
}
