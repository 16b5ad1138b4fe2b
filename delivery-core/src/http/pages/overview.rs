//! The overview: recent figures, what needs the seller's attention, and the state of the service.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use minijinja::{Value, context};

use super::events::newest_event;
use super::frame::desk;
use super::lists::parameter;
use super::shown::{PERIODS, all_names, day_and_month, names, time};
use super::{ApiError, PageRequest, SignedIn, can_import};
use crate::delivery::{Delivery, Recent};
use crate::http::Reply;
use crate::http::parameter::DAYS;
use crate::key::Status;
use crate::ledger::{Amount, Currency, EventOutcome};
use crate::look::{grouped, plot};
use crate::order::Source;
use crate::product::ProductId;
use crate::store::{Backlog, Day, Figures, InboxQuery, KeyQuery, or_none};

/// Platform events, and products that are not linked to a platform, are counted up to this number. If there are more,
/// the page says "More than 100".
const MOST: usize = 100;
/// If the oldest message has waited for more minutes than this, the state of e-mail is shown as bad.
const LATE: i64 = 10;

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let delivery = request.delivery;
    let products = names(delivery).await?;
    let days: u32 = parameter(&request, DAYS.name)?.unwrap_or(PERIODS[0].0);
    if !PERIODS.iter().any(|(period, _)| *period == days) {
        return Err(ApiError::MALFORMED);
    }
    // `None` if the store keeps no messages.
    let backlog = match seller.backlog {
        Some(backlog) => Some(backlog),
        None => or_none(delivery.backlog().await)?,
    };
    let waits = backlog.map(|backlog| waiting(&backlog, delivery.now()));
    let failed = backlog.map_or(0, |backlog| backlog.unanswered);
    let attention = attention(&request, products.keys().copied().collect(), failed, waits.as_ref()).await?;
    let newest = delivery.keys(&KeyQuery { limit: 1, ..KeyQuery::default() }).await?;
    let (health, all_products) = (health(delivery, waits).await, all_names(delivery, &[]).await?);
    // Count last. Counting may read every key, and this would slow down the other reads for this page.
    let recent = delivery.recent_figures(days * 2).await;
    let counting = match &recent {
        Recent::Failed => "The store could not count them just now.",
        Recent::Known(..) => "They are counted once a minute.",
        Recent::Counting => "They are being counted, which takes a moment in a large shop.",
    };
    let figures = match &recent {
        // Do not show figures without keys if the store has a key. They were counted before the first key was
        // issued.
        Recent::Known(at, counted) if newest.items.is_empty() || !counted.keys.is_empty() => {
            Some(shown(counted, *at, days, &all_products))
        }
        _ => None,
    };
    let steps = newest.items.is_empty().then(|| first_steps(delivery, !products.is_empty()));
    request.page(
        "overview.html",
        context! {
            figures, counting, steps, attention, periods => PERIODS.to_vec(), days,
            health,
            ..desk(&request, &seller, "/desk")
        },
    )
}

/// Returns what a new shop has to do before its first sale. Each entry is a text, the path of the page where the seller
/// can do it, and whether it is done.
fn first_steps(delivery: &Delivery, has_products: bool) -> Vec<(&'static str, &'static str, bool)> {
    let mut steps = vec![
        ("Add a product", "/desk/product", has_products),
        ("Connect the platform that takes the money", "/desk/setup", delivery.inner.platforms.is_any()),
        ("Set a mail server", "/desk/setup", !delivery.inner.outbox.mailer.reaches_nobody()),
        ("Sell once: pay yourself, or issue a key by hand", "/desk/issue", false),
    ];
    if can_import(delivery) {
        steps.push(("If you sold elsewhere before, import those sales", "/desk/import", false));
    }
    steps
}

fn shown(figures: &Figures, at: DateTime<Utc>, period: u32, products: &BTreeMap<ProductId, String>) -> Value {
    let dates = (0..period * 2).rev().map(|back| (at - TimeDelta::days(back.into())).date_naive());
    let counted: BTreeMap<_, _> = figures.days.iter().map(|day| (day.date, *day)).collect();
    let all: Vec<Day> = dates.map(|date| counted.get(&date).copied().unwrap_or(Day::new(date))).collect();
    let (before, days) = all.split_at(all.len() / 2);
    let plotted = |name: &str, count: fn(&Day) -> u64| {
        let bars: Vec<(String, u64)> = days.iter().map(|day| (day_and_month(day.date), count(day))).collect();
        let rows: Vec<(String, u64)> = days.iter().rev().map(|day| (day.date.to_string(), count(day))).collect();
        let svg = plot(&format!("{name} on each of the last {period} days"), &bars);
        context! {
            name, svg => Value::from_safe_string(svg), days => rows,
            most => bars.iter().map(|(_, count)| count).max(),
            first => bars.first().map(|(day, _)| day), last => bars.last().map(|(day, _)| day),
            total => days.iter().map(count).sum::<u64>(), before => before.iter().map(count).sum::<u64>(),
        }
    };
    let mut rows: BTreeMap<ProductId, [u64; 4]> = BTreeMap::new();
    for (product, status, count) in &figures.keys {
        let counts = rows.entry(*product).or_default();
        let [valid, expired, exhausted, revoked] = counts;
        *match status {
            Status::Valid => valid,
            Status::Expired => expired,
            Status::Exhausted => exhausted,
            Status::Revoked => revoked,
        } += count;
    }
    let valid: u64 = rows.values().map(|[valid, ..]| valid).sum();
    let keys: u64 = rows.values().flatten().sum();
    let row = |(id, [valid, expired, exhausted, revoked]): (ProductId, [u64; 4])| {
        let name = products.get(&id).cloned().unwrap_or_else(|| format!("product {id}"));
        context! { id => id.get(), name, valid, expired, exhausted, revoked }
    };
    let first = days.first().map_or(at.date_naive(), |day| day.date);
    let mut paid: BTreeMap<Currency, [u64; 2]> = BTreeMap::new();
    for (date, Amount { units, currency }) in figures.revenue.iter().filter(|(date, _)| *date <= at.date_naive()) {
        let [now, before] = paid.entry(*currency).or_default();
        let sum = if *date >= first { now } else { before };
        *sum = sum.saturating_add(*units);
    }
    paid.retain(|_, both| *both != [0, 0]);
    let revenue = paid.into_iter().map(|(currency, both)| {
        let [now, before] = both.map(|units| Amount { units, currency }.decimal());
        context! { currency => currency.to_string(), now, before }
    });
    context! {
        at => time(at), valid, keys, revenue => revenue.collect::<Vec<_>>(),
        plots => [plotted("Sales", |day| day.issued), plotted("Uses", |day| day.uses)],
        products => rows.into_iter().map(row).collect::<Vec<_>>(),
    }
}

/// Returns what needs the seller's attention. Each entry is a text and the path of the page on which the seller can
/// act. `failed` is the number of failed messages that the seller must deal with: [`Backlog::unanswered`]. `waits` is
/// the result of [`waiting`].
async fn attention(
    request: &PageRequest<'_>,
    products: Vec<ProductId>,
    failed: u64,
    waits: Option<&(String, i64)>,
) -> Result<Vec<(String, String)>, ApiError> {
    let mut all = Vec::new();
    if request.delivery.inner.outbox.mailer.reaches_nobody() {
        all.push(("No buyer gets e-mails: they only become files".to_owned(), "/desk/setup".to_owned()));
    }
    let platforms = &request.delivery.inner.platforms;
    for name in platforms.names().map(Source::as_str) {
        if platforms.is_unreadable(name) && platforms.named(name).is_none() {
            all.push((
                format!("The secret of {name} cannot be read: its events are not accepted"),
                "/desk/setup".to_owned(),
            ));
        }
    }
    for name in platforms.names() {
        if let Some(refused) = platforms.refused_at(name.as_str())
            && platforms.named(name.as_str()).is_some()
            && newest_event(request, name, None).await?.is_none_or(|last| last.received_at < refused)
        {
            // Anybody can send a request with a wrong signature. So the sentence does not state that the secret is
            // wrong.
            let sentence = format!(
                "A request in the name of {name} had a wrong signature, and none was accepted since. If sales are missing, \
                 compare the secret here with the one that {name} shows"
            );
            all.push((sentence, "/desk/setup".to_owned()));
        }
    }
    if let Some((text, _)) = waits.filter(|(_, minutes)| *minutes > 0) {
        all.push((text.clone(), "/desk/messages?state=queued".to_owned()));
    }
    if failed > 0 {
        let count = counted(usize::try_from(failed).unwrap_or(usize::MAX), false, "message", "messages");
        all.push((format!("{count} could not be sent"), "/desk/messages?state=failed".to_owned()));
    }
    let outcome = Some(EventOutcome::NeedsAttention);
    let waits = InboxQuery { outcome, is_grouped: true, limit: MOST, ..InboxQuery::default() };
    if let Some(page) = or_none(request.delivery.events(&waits).await)?.filter(|page| !page.items.is_empty()) {
        let count = counted(page.items.len(), page.next.is_some(), "event of a platform", "events of platforms");
        all.push((format!("{count} could not be applied"), "/desk/events?outcome=needs_attention".to_owned()));
    }
    if platforms.is_any() {
        all.extend(unlinked(request, products).await?);
    }
    Ok(all)
}

/// Returns the entry about products that are not linked to any platform. Returns `None` if all products are linked.
async fn unlinked(request: &PageRequest<'_>, products: Vec<ProductId>) -> Result<Option<(String, String)>, ApiError> {
    let mut found = Vec::new();
    for id in products {
        found.extend(request.delivery.product(id).await?.filter(|product| product.refs().is_empty()));
        if found.len() > MOST {
            break;
        }
    }
    Ok(match found.as_slice() {
        [] => None,
        [one] => Some((
            format!("{} is not linked to any platform yet", one.name()),
            format!("/desk/product?id={}", one.id()),
        )),
        many => {
            let count = counted(many.len().min(MOST), many.len() > MOST, "product", "products");
            Some((format!("{count} are not linked to any platform yet"), "/desk/products".to_owned()))
        }
    })
}

/// Returns a text about the messages that wait to be sent, and the number of minutes that the oldest has waited. The
/// number is 0 if no message waits.
fn waiting(backlog: &Backlog, now: DateTime<Utc>) -> (String, i64) {
    let Some(oldest) = backlog.oldest else { return ("nothing waits to be sent".to_owned(), 0) };
    let queued = usize::try_from(backlog.queued).unwrap_or(usize::MAX);
    let count = counted(queued, false, "message waits", "messages wait");
    let minutes = now.signed_duration_since(oldest).num_minutes();
    let text = match minutes {
        ..1 => format!("{count} to be sent"),
        1 => format!("{count} to be sent, the oldest for a minute"),
        minutes => format!("{count} to be sent, the oldest for {} minutes", grouped(&minutes.to_string())),
    };
    (text, minutes)
}

fn counted(count: usize, is_more: bool, one: &str, many: &str) -> String {
    match (count, is_more) {
        (1, false) => format!("1 {one}"),
        (count, false) => format!("{} {many}", grouped(&count.to_string())),
        (count, true) => format!("More than {count} {many}"),
    }
}

/// Returns the state of the store, of the mail queue and of the rate limiter. Each entry is a name, a text, and whether
/// this part of the service works. `waits` is the result of [`waiting`]; `None` if the store keeps no messages.
async fn health(delivery: &Delivery, waits: Option<(String, i64)>) -> Vec<(&'static str, String, bool)> {
    let store = delivery.ready().await.is_ok();
    let mail = match waits {
        _ if delivery.inner.outbox.mailer.reaches_nobody() => ("E-mail", "only becomes files".to_owned(), false),
        Some((text, minutes)) => ("E-mail", text, minutes <= LATE),
        None => ("E-mail", "unknown: the store keeps no messages".to_owned(), false),
    };
    let store_text = if store { "working" } else { "does not answer" };
    // The limiter works, because it has just admitted this request.
    vec![("Store", store_text.to_owned(), store), mail, ("Limits", "working".to_owned(), true)]
}
