//! Conversion of keys, messages, times and other things that pages show into values for the templates.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use minijinja::{Value, context};

use super::form::{Fault, Form};
use super::{ApiError, PageRequest, SignedIn, base};
use crate::clock::timestamp;
use crate::delivery::Delivery;
use crate::http::{Reply, query};
use crate::key::{Key, Status};
use crate::ledger::Recipient;
use crate::order::Source;
use crate::product::{Price, ProductId};
use crate::store::{AuditEntry, MessageState, StoreError, StoredMessage, Subscribed};
use crate::terms::NEVER;

/// The maximum number of rows that a list shows at once. The list links to the further rows.
pub(super) const PAGE: usize = 50;
/// How many pages a list leads back, one after another. The address of a page has their starts, of up to 36 characters each.
const STARTS: usize = 50;
/// Stands for the starts of pages before those that are known.
const CUT: &str = "-";

/// The numbers of days that the overview can show, and what it calls them. The first is shown if none is chosen.
pub(super) const PERIODS: [(u32, &str); 4] = [(30, "30 days"), (7, "7 days"), (90, "90 days"), (365, "a year")];

/// The entries of the desk's navigation: path and label.
const NAV: &[(&str, &str)] = &[
    ("/desk", "Overview"),
    ("/desk/keys", "Keys"),
    ("/desk/products", "Products"),
    ("/desk/events", "Activity"),
    ("/desk/posts", "Posts"),
    ("/desk/setup", "Setup"),
];
/// The pages of *Activity*.
const ACTIVITY: &[(&str, &str)] =
    &[("/desk/events", "Platform events"), ("/desk/messages", "Messages"), ("/desk/audit", "Audit log")];

/// Returns the values that every page of the desk needs: the signed-in seller, the navigation, and a confirmation
/// message. `here` is the path of the page.
pub(super) fn desk(visit: &PageRequest<'_>, seller: &SignedIn, here: &str) -> Value {
    let done = query::parameter(visit.call, "done").ok().flatten();
    // Show only messages from a fixed list, so that a crafted link cannot put text into the page.
    let notice = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done).copied());
    let is_written = visit.delivery.inner.outbox.mailer.reaches_nobody();
    let is_written = is_written && notice.is_some_and(|(name, _)| E_MAILS.contains(&name));
    let is_well = !is_written && notice.is_some_and(|(name, _)| !NOT_DONE.contains(&name));
    let more = if is_written { " E-mails only become files here, and reach nobody." } else { "" };
    let is_activity = ACTIVITY.iter().any(|(path, _)| *path == here);
    context! {
        year => visit.delivery.now().year(),
        seller => context! {
            nav => NAV.to_vec(), here, tabs => is_activity.then(|| ACTIVITY.to_vec()),
            entry => if is_activity { "/desk/events" } else { here }, waits => seller.waits.clone(), csrf => seller.csrf.clone(), signs_out => seller.session.is_some(), name => seller.actor.as_str()
        },
        notice => notice.map(|(_, sentence)| format!("{sentence}{more}")), is_well, fault => Value::from(()), faulty => "",
    }
}

/// The confirmation messages that the desk shows after a form was handled. The first text is the value of the `done`
/// parameter in the URL.
const DONE: &[(&str, &str)] = &[
    ("issued", "The key is issued, and its e-mail is on its way."),
    ("none_chosen", "Choose keys first: nothing was done."),
    ("none_done", "Nothing was done: the keys are revoked, or are not there."),
    ("all_revoked", "The keys are revoked."),
    ("all_resent", "The e-mails are on their way."),
    ("some_resent", "The e-mails are on their way. Revoked keys were left out."),
    ("revoked", "The key is revoked."),
    ("restored", "The key can be used again."),
    ("changed", "The key has its new terms."),
    ("resent", "The e-mail is on its way."),
    ("saved", "Saved. Buyers who open it from now on get it as it is now."),
    ("posted", "Saved. Whoever lists the posts gets it as it is now."),
    ("files", "The files are there. Buyers who open the product get them."),
    ("file_deleted", "The file is deleted."),
    ("archived", "The product is no longer sold."),
    ("on_sale", "The product is sold again."),
    ("deleted", "The post is deleted."),
    ("retried", "The message is sent again."),
    ("nothing", "Nothing was to be done: this message no longer waits."),
    ("applied", "The event was applied: below is the result."),
    ("secret_set", "The secret is set. Every server accepts events that are signed with it."),
    ("secret_removed", "The secret is removed."),
    ("mailed", "The mail server took the test e-mail."),
    ("erased", "The person is forgotten."),
    ("nobody", "No key has this address: check how it is spelled. Whatever else mentioned it is gone."),
    ("unapplied", "Nothing came of it: below is what is missing."),
    ("ignored", "The event was ignored: below is why."),
    ("done_before", "This event was done before, and nothing was changed."),
    ("linked_waits", "The product is linked. This event still waits: below is what is missing."),
    ("dismissed", "The event is put aside. To apply it after all, send the form below."),
    ("linked", "The product is linked. Sales of it that waited were applied."),
    ("written", "The test e-mail was written to a file. Nobody gets e-mails before a mail server is set."),
];

/// Those of [`DONE`] that say that an e-mail is sent.
const E_MAILS: &[&str] = &["issued", "resent", "retried", "all_resent", "some_resent"];
/// Those of [`DONE`] that do not say that all is well.
const NOT_DONE: &[&str] = &[
    "none_chosen",
    "none_done",
    "some_resent",
    "nothing",
    "unapplied",
    "ignored",
    "done_before",
    "linked_waits",
    "nobody",
    "written",
];

/// The placeholder in a template for the HTML of a product's content. No template value can be mistaken for it, because
/// templates escape `<` in values.
pub(super) const CONTENT: &str = "<!--content-->";
/// The placeholder in a template for the source text of a product's content.
pub(super) const SOURCE: &str = "<!--source-->";

/// Converts the Markdown in the field `content` of a form to HTML.
///
/// # Errors
///
/// If it cannot be shown although the seller has asked for it. Otherwise the seller must still be able to change it.
pub(super) async fn preview(
    delivery: &Delivery,
    form: &Form,
    fault: Option<&Fault>,
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

/// Returns an identifier that fits into a column: the beginning and the end of a long one. The whole stands beside it.
pub(super) fn short(text: &str) -> String {
    let (begin, end) = (text.floor_char_boundary(12), text.ceil_char_boundary(text.len().saturating_sub(6)));
    if text.chars().count() <= 22 { text.to_owned() } else { format!("{}…{}", &text[..begin], &text[end..]) }
}

/// Returns the time when a key expires, or the template's `none` for a key that never expires.
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

/// Returns how pages call a status.
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

/// Returns the names of archived products. There are none if products are managed elsewhere.
pub(super) async fn archived(delivery: &Delivery) -> Result<Vec<(ProductId, String)>, ApiError> {
    let archived = match delivery.archived_products().await {
        Err(StoreError::Unsupported) => Vec::new(),
        found => found?,
    };
    Ok(archived.into_iter().map(|product| (product.id, product.name)).collect())
}

/// Returns the names of the products that are sold, of archived products, and of those of these keys. A host application that
/// manages products elsewhere lists no archived ones.
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

/// Returns the options of a select element that lists products: the value and the label of each.
pub(super) fn choices(names: &BTreeMap<ProductId, String>) -> Vec<(String, String)> {
    names.iter().map(|(id, name)| (id.to_string(), format!("{name} ({id})"))).collect()
}

/// Returns how often a key was used, and its limit.
pub(super) fn uses(key: &Key) -> String {
    match key.limit().as_count() {
        -1 => format!("{} / ∞", key.used()),
        most => format!("{} / {most}", key.used()),
    }
}

/// Returns the template values of a key, which the list of keys and the key's own page show.
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

/// Returns the template values of a message. `reaches_nobody` says that e-mails only become files.
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

/// Returns the links below a list at `path`: to the first page, to the page before this one, to the next page, which begins
/// at `before`, and to the same rows as tables. Each of `tables` is the name of an export and the text of its link. Empty
/// filters are left out.
///
/// The list is read in one direction only. So each page has the starts of the pages before it in its address, in the
/// parameter `back`: see [`around`].
pub(super) fn links(
    visit: &PageRequest<'_>,
    path: &str,
    filters: &Chosen,
    before: Option<String>,
    tables: &[(&str, &'static str)],
) -> Value {
    let link = |path: &str, more: &[(&str, &str)]| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let pairs = filters.iter().map(|(name, value)| (*name, value.as_str())).chain(more.iter().copied());
        query.extend_pairs(pairs.filter(|(_, value)| !value.is_empty()));
        format!("{}{path}?{}", base(visit.delivery), query.finish()).trim_end_matches('?').to_owned()
    };
    let parameter = |name| query::parameter(visit.call, name).ok().flatten().unwrap_or_default();
    let pages = around(&parameter("before"), &parameter("back"), before);
    let [newest, newer, next] =
        pages.map(|page| page.map(|[before, back]| link(path, &[("before", &before), ("back", &back)])));
    let tables: Vec<_> = tables.iter().map(|(what, text)| (link("/desk/export", &[("what", what)]), *text)).collect();
    context! { newest, newer, next, tables }
}

/// Returns the values of the parameters `before` and `back` for the newest page of a list, for the page before this one and
/// for the next one. `here` and `back` are their values for this page. `next` is where the next page begins.
pub(super) fn around(here: &str, back: &str, next: Option<String>) -> [Option<[String; 2]>; 3] {
    let mut starts: Vec<&str> = back.split(',').filter(|start| !start.is_empty()).collect();
    let newest = (!starts.is_empty()).then(<[String; 2]>::default);
    let newer = match starts.split_last() {
        Some((&CUT, _)) => None,
        Some((last, rest)) => Some([(*last).to_owned(), rest.join(",")]),
        None => (!here.is_empty()).then(<[String; 2]>::default),
    };
    starts.extend((!here.is_empty()).then_some(here));
    if starts.len() > STARTS {
        starts.splice(..=starts.len() - STARTS, [CUT]);
    }
    [newest, newer, next.map(|next| [next, starts.join(",")])]
}

/// What the seller chose for the filters of a list, by the names of the parameters; "" for a filter that is not used.
pub(super) type Chosen = BTreeMap<&'static str, String>;

pub(super) fn chosen(visit: &PageRequest<'_>, names: &[&'static str]) -> Result<Chosen, ApiError> {
    let one = |name: &&'static str| Ok((*name, query::parameter(visit.call, name)?.unwrap_or_default().into_owned()));
    names.iter().map(one).collect()
}

/// Returns the options of a select element that lists platforms, and what was chosen for this filter if it is another.
pub(super) fn sources(delivery: &Delivery, chosen: &Chosen, filter: &str) -> Vec<(String, String)> {
    let mut names: Vec<String> = delivery.inner.platforms.names().map(ToString::to_string).collect();
    names.push(Source::webhook().to_string());
    let other = chosen.get(filter).filter(|name| !name.is_empty() && !names.contains(name)).cloned();
    names.extend(other);
    names.into_iter().map(|name| (name.clone(), name)).collect()
}

/// Returns the options of a select element for what these names mean: the value and the label of each.
pub(super) fn options(names: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, String)> {
    names.into_iter().map(|name| (name, name.replace('_', " "))).collect()
}

/// Returns a query parameter parsed as `T`. A malformed value is an error.
pub(super) fn parameter<T: std::str::FromStr>(visit: &PageRequest<'_>, name: &str) -> Result<Option<T>, ApiError> {
    let Some(text) = query::parameter(visit.call, name).map_err(|_| ApiError::MALFORMED)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| ApiError::MALFORMED)
}

/// Returns a query parameter that is the id of a product.
pub(super) fn product_id(visit: &PageRequest<'_>, name: &str) -> Result<Option<ProductId>, ApiError> {
    let number: Option<i64> = parameter(visit, name)?;
    number.map(ProductId::new).transpose().map_err(|_| ApiError::MALFORMED)
}
