//! How the shop does, and what needs the seller.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use minijinja::{Value, context};

use super::shown::{desk, names, time};
use super::{Answering, SignedIn, Trouble, Visit};
use crate::delivery::Recent;
use crate::key::Status;
use crate::look::plot;
use crate::product::ProductId;
use crate::store::{Figures, MessageQuery, MessageState, StoreError};

/// Days that are plotted.
const DAYS: u32 = 30;
/// How many of a kind are counted; beyond that there are "more than".
const MOST: usize = 100;

pub(super) fn show(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let delivery = visit.delivery;
        let products = names(delivery).await?;
        let recent = delivery.recent_figures(DAYS).await;
        let counting = match &recent {
            Recent::Failed => "The store could not count just now. It is tried again.",
            _ => "They are being counted. This page loads again by itself.",
        };
        let figures = match recent {
            Recent::Known(at, counted) => Some(shown(&counted, at, &products)),
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
        context! { name, svg => Value::from_safe_string(plot(&label, &counts)), total => counts.iter().sum::<u64>(), days => rows }
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

/// What waits for the seller, each with where it is looked at.
async fn attention(
    visit: &Visit<'_>,
    seller: &SignedIn,
    #[cfg_attr(
        not(feature = "platforms"),
        expect(unused_variables, reason = "products have names where platforms are")
    )]
    products: Vec<ProductId>,
) -> Result<Vec<(String, String)>, Trouble> {
    let mut all = Vec::new();
    let failed = MessageQuery { state: Some(MessageState::Failed), limit: MOST, ..MessageQuery::default() };
    match visit.delivery.desk(&seller.actor).messages(&failed).await {
        Ok(page) if !page.items.is_empty() => {
            let count = counted(page.items.len(), page.next.is_some(), "e-mail", "e-mails");
            all.push((format!("{count} could not be sent"), "/desk/messages?state=failed".to_owned()));
        }
        Ok(_) | Err(StoreError::Unsupported) => {}
        Err(error) => return Err(error.into()),
    }
    #[cfg(feature = "platforms")]
    {
        use crate::store::{EventOutcome, InboxQuery};

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
                    let text = format!("{} has no name at any platform, so that none sells it", product.name());
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

/// How store, mail and limits are: a name, a sentence, and whether all is well.
async fn health(visit: &Visit<'_>, seller: &SignedIn) -> Vec<(&'static str, String, bool)> {
    let delivery = visit.delivery;
    let store = delivery.ready().await.is_ok();
    let queued = MessageQuery { state: Some(MessageState::Queued), limit: MOST, ..MessageQuery::default() };
    let queued = delivery.desk(&seller.actor).messages(&queued).await;
    let now = delivery.inner.clock.now();
    let mail = match queued {
        Ok(page) => {
            // The newest are listed first.
            let oldest = page.items.last().map(|message| now.signed_duration_since(message.queued_at));
            let is_late = oldest.is_some_and(|age| age > TimeDelta::minutes(10));
            let text = match oldest {
                None => "no message waits".to_owned(),
                Some(age) => {
                    let count = counted(page.items.len(), page.next.is_some(), "message waits", "messages wait");
                    format!("{count}, for {} minutes by now", age.num_minutes())
                }
            };
            ("E-mail", text, !is_late)
        }
        Err(_) => ("E-mail", "the store does not tell".to_owned(), false),
    };
    let store_text = if store { "it answers" } else { "it does not answer" };
    // This page was counted a moment ago.
    vec![("Store", store_text.to_owned(), store), mail, ("Limits", "they are counted".to_owned(), true)]
}
