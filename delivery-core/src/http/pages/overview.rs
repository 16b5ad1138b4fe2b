//! The overview: recent figures, what needs the seller's attention, and the state of the service.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use minijinja::{Value, context};

use super::shown::{DAYS, all_names, day_and_month, desk, names, time};
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::delivery::Recent;
use crate::key::Status;
use crate::look::plot;
use crate::product::ProductId;
use crate::store::{Figures, MessageQuery, MessageState, StoreError};

/// The maximum number of items of one kind that are counted. If there are more, the page says "More than 100".
const MOST: usize = 100;
/// The maximum number of queued messages that are read to find the oldest.
const QUEUED: usize = 1000;

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let delivery = visit.delivery;
        let products = names(delivery).await?;
        let recent = delivery.recent_figures(DAYS).await;
        let counting = match &recent {
            Recent::Failed => "The store could not count them just now.",
            _ => "They are being counted, which takes a moment in a large shop.",
        };
        let figures = match recent {
            Recent::Known(at, counted) => Some(shown(&counted, at, &all_names(delivery).await?)),
            Recent::Counting | Recent::Failed => None,
        };
        visit.page(
            "overview.html",
            context! {
                figures, counting,
                attention => attention(&visit, &seller, products.keys().copied().collect()).await?,
                health => health(&visit, &seller).await,
                ..desk(&visit, &seller, "/desk")
            },
        )
    })
}

fn shown(figures: &Figures, at: DateTime<Utc>, products: &BTreeMap<ProductId, String>) -> Value {
    let dates = (0..DAYS).rev().map(|back| (at - TimeDelta::days(back.into())).date_naive());
    let days: Vec<_> = dates
        .map(|date| figures.days.iter().find(|day| day.date == date).copied().unwrap_or(crate::store::Day::new(date)))
        .collect();
    let plotted = |name: &str, count: fn(&crate::store::Day) -> u64| {
        let counts: Vec<u64> = days.iter().map(count).collect();
        let rows: Vec<(String, u64)> = days.iter().rev().map(|day| (day.date.to_string(), count(day))).collect();
        let label = format!("{name} on each of the last {DAYS} days");
        let ends = [days.first(), days.last()].map(|day| day.map(|day| day_and_month(day.date)).unwrap_or_default());
        let svg = plot(&label, (&ends[0], &ends[1]), &counts);
        context! { name, svg => Value::from_safe_string(svg), total => counts.iter().sum::<u64>(), days => rows }
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
    let row = |(id, [valid, expired, exhausted, revoked]): (ProductId, [u64; 4])| {
        let name = products.get(&id).cloned().unwrap_or_else(|| format!("product {id}"));
        context! { id => id.get(), name, valid, expired, exhausted, revoked }
    };
    context! {
        at => time(at),
        plots => [plotted("Sales", |day| day.issued), plotted("Uses", |day| day.uses)],
        products => rows.into_iter().map(row).collect::<Vec<_>>(),
    }
}

/// Returns what needs the seller's attention. Each entry is a text and the path of the page on which the seller can
/// act.
async fn attention(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    products: Vec<ProductId>,
) -> Result<Vec<(String, String)>, ApiError> {
    let mut all = Vec::new();
    if visit.delivery.inner.outbox.mailer.reaches_nobody() {
        all.push(("No buyer gets e-mails: they only become files".to_owned(), "/desk/setup".to_owned()));
    }
    let failed = MessageQuery { state: Some(MessageState::Failed), limit: MOST, ..MessageQuery::default() };
    match visit.delivery.desk(&seller.actor).messages(&failed).await {
        Ok(page) if !page.items.is_empty() => {
            let count = counted(page.items.len(), page.next.is_some(), "message", "messages");
            all.push((format!("{count} could not be sent"), "/desk/messages?state=failed".to_owned()));
        }
        Ok(_) | Err(StoreError::Unsupported) => {}
        Err(error) => return Err(error.into()),
    }
    {
        use crate::ledger::EventOutcome;
        use crate::store::InboxQuery;

        let waits = InboxQuery { outcome: Some(EventOutcome::NeedsAttention), before: None, limit: MOST };
        match visit.delivery.events(&waits).await {
            Ok(page) if !page.items.is_empty() => {
                let count =
                    counted(page.items.len(), page.next.is_some(), "event of a platform", "events of platforms");
                all.push((format!("{count} could not be applied"), "/desk/events?outcome=needs_attention".to_owned()));
            }
            Ok(_) | Err(StoreError::Unsupported) => {}
            Err(error) => return Err(error.into()),
        }
        if visit.delivery.inner.platforms.is_any() {
            for id in products {
                if let Some(product) = visit.delivery.product(id).await?.filter(|product| product.refs().is_empty()) {
                    let text = format!("{} is not linked to any platform yet", product.name());
                    all.push((text, format!("/desk/product?id={id}")));
                }
                if all.len() >= MOST {
                    break;
                }
            }
        }
    }
    Ok(all)
}

fn counted(count: usize, is_more: bool, one: &str, many: &str) -> String {
    match (count, is_more) {
        (1, false) => format!("1 {one}"),
        (count, false) => format!("{count} {many}"),
        (count, true) => format!("More than {count} {many}"),
    }
}

/// Returns the state of the store, of the mail queue and of the rate limiter. Each entry is a name, a text, and whether
/// this part of the service works.
async fn health(visit: &PageRequest<'_>, seller: &SignedIn) -> Vec<(&'static str, String, bool)> {
    let delivery = visit.delivery;
    let store = delivery.ready().await.is_ok();
    let queued = MessageQuery { state: Some(MessageState::Queued), limit: QUEUED, ..MessageQuery::default() };
    let queued = delivery.desk(&seller.actor).messages(&queued).await;
    let now = delivery.inner.clock.now();
    let mail = match queued {
        Ok(page) => {
            // The last message of the page is the oldest, because the list is sorted from newest to oldest.
            let oldest = page.items.last().map(|message| now.signed_duration_since(message.queued_at));
            let is_late = oldest.is_some_and(|age| age > TimeDelta::minutes(10));
            let text = match oldest {
                None => "nothing waits to be sent".to_owned(),
                Some(age) => {
                    let count = counted(page.items.len(), page.next.is_some(), "message waits", "messages wait");
                    match age.num_minutes() {
                        ..1 => count,
                        1 => format!("{count}, the oldest for a minute"),
                        minutes => format!("{count}, the oldest for {minutes} minutes"),
                    }
                }
            };
            ("E-mail", text, !is_late)
        }
        Err(_) => ("E-mail", "unknown: the store does not answer".to_owned(), false),
    };
    let store_text = if store { "working" } else { "does not answer" };
    // The limiter works, because it has just admitted this request.
    vec![("Store", store_text.to_owned(), store), mail, ("Limits", "working".to_owned(), true)]
}
