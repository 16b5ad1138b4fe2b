//! Measures a filled store through the service, without a framework: [`Endpoint`] on values.

use std::sync::Arc;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::clock::{Clock, SystemClock};
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Actor, Keyring, Status};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::look::Look;
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::platform::{Secrets, Stripe};
use delivery_core::product::ProductId;
use delivery_core::store::{CatalogEditor, KeyQuery, Ledger, PostgresStore, Posts, SqliteStore, StoreError};
use futures_util::{StreamExt, stream};
use http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::desk::{self, Everybody};
use crate::fill::{id, keyring, timed};
use crate::variety::is_common;
use crate::{Figure, figure, resident};

/// Calls in a figure.
const CALLS: usize = 20_000;
/// Callers at once.
const CALLERS: usize = 64;
const SECRET: &str = "a webhook's secret";

#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Mailer for Nowhere {
    async fn send(&self, _: &Message) -> Result<(), MailError> {
        Ok(())
    }
}

/// The figures of the store at `url`, which has `keys` keys.
pub async fn store(url: &str, keys: i64) -> Vec<Figure> {
    match url.strip_prefix("sqlite://") {
        Some(file) => started(keys, async { SqliteStore::open(file).await.unwrap() }).await,
        None => Box::pin(started(keys, async { PostgresStore::connect(url).await.unwrap() })).await,
    }
}

async fn started<S: Ledger + CatalogEditor + Posts>(keys: i64, open: impl Future<Output = S>) -> Vec<Figure> {
    let mut random = StdRng::seed_from_u64(1);
    let one = 1;
    let mut some = |how_many: usize| -> Vec<i64> {
        std::iter::repeat_with(|| random.random_range(1..=keys))
            .filter(|number| is_common(*number))
            .take(how_many)
            .collect()
    };
    let (delivery, start) = timed(async {
        let delivery = service(Arc::new(open.await));
        delivery.register().await.unwrap();
        validate(&delivery, one).await;
        delivery
    })
    .await;
    let mut figures = vec![
        figure("start to first answer", start.as_secs_f64() * 1e3, "ms"),
        figure("memory at start", resident() / 1e6, "MB"),
    ];
    let any = some(CALLS);
    let few: Vec<i64> = any.iter().map(|number| any[usize::try_from(*number).unwrap() % 500]).collect();
    // A store just opened has everything to read; that is the first row's price.
    for (what, numbers) in [("validate any key", &any), ("validate one of 500", &few)] {
        let one_by_one = timed(async {
            for number in &numbers[..CALLS / 4] {
                validate(&delivery, *number).await;
            }
        });
        figures.push(each(&format!("{what}, one caller"), one_by_one.await.1, CALLS / 4));
        let together = timed(all(numbers, |number| validate(&delivery, number)));
        figures.push(per_second(&format!("{what}, {CALLERS} callers"), together.await.1, CALLS));
    }
    // So many that uses are also flushed meanwhile, as in service; and other keys than those in the key cache now.
    let any = some(CALLS * 20);
    let few: Vec<i64> = few.repeat(20);
    all(&few[..CALLS / 20], |number| fetch(&delivery, number)).await;
    for (what, numbers) in [("fetch with one of 500", &few), ("fetch with any key", &any)] {
        let one_by_one = timed(async {
            for number in &numbers[..CALLS / 20] {
                fetch(&delivery, *number).await;
            }
        });
        figures.push(each(&format!("{what}, one caller"), one_by_one.await.1, CALLS / 20));
        let together = timed(all(numbers, |number| fetch(&delivery, number)));
        figures.push(per_second(&format!("{what}, {CALLERS} callers"), together.await.1, numbers.len()));
    }
    let new: Vec<i64> = (0..i64::try_from(CALLS / 2).unwrap()).map(|number| number + (keys << 20)).collect();
    let ordered = timed(all(&new, |number| order(&delivery, number)));
    figures.push(per_second(&format!("new order, {CALLERS} callers"), ordered.await.1, CALLS / 2));
    let replayed = timed(all(&any[..CALLS / 2], |number| order(&delivery, number)));
    figures.push(per_second(&format!("order sent again, {CALLERS} callers"), replayed.await.1, CALLS / 2));
    figures.extend(searches(&delivery, &any[..200]).await);
    figures.extend(desk::pages(&delivery, any[0]).await);
    figures.push(figure("memory at the end", resident() / 1e6, "MB"));
    let ((), closed) = timed(delivery.close()).await;
    figures.push(figure("close", closed.as_secs_f64() * 1e3, "ms"));
    figures
}

fn service<S: Ledger + CatalogEditor + Posts>(store: Arc<S>) -> Delivery {
    let stripe = Stripe::new(&Secrets::new(["whsec_1"]).unwrap());
    let plenty = Quota::per_minute(u32::MAX).unwrap();
    let quotas = Quotas {
        product: plenty,
        validate: plenty,
        webhook: plenty,
        desk: plenty,
        failures: plenty,
        events: plenty,
        ..Quotas::default()
    };
    Delivery::builder(store, Arc::new(Nowhere), keyring())
        .webhook_secret(SECRET.parse().unwrap())
        .platform(stripe)
        .pages(Look::default())
        .seller(Arc::new(Everybody))
        .quotas(quotas)
        .build()
}

/// Pages as the seller looks for them.
async fn searches(delivery: &Delivery, any: &[i64]) -> Vec<Figure> {
    let page = KeyQuery { limit: 50, ..KeyQuery::default() };
    let mut figures = Vec::new();
    let found = timed(async {
        for number in any {
            let email = format!("buyer{}@example.com", number * 2_654_435_761 % 4_294_967_296).parse().unwrap();
            let found = delivery.keys(&KeyQuery { email: Some(email), ..page.clone() }).await.unwrap();
            assert!(found.items.iter().any(|key| key.id() == id(*number)));
        }
    });
    figures.push(each("search by address", found.await.1, any.len()));
    let history = timed(async {
        for number in any {
            assert!(!delivery.history(id(*number), None, 20).await.unwrap().items.is_empty());
        }
    });
    figures.push(each("history of a key", history.await.1, any.len()));
    let (marked, took) = timed(delivery.maintenance().mark_expired()).await;
    figures.push(figure(&format!("marking {} expired keys", marked.unwrap()), took.as_secs_f64() * 1e3, "ms"));
    let (ours, other) = (ProductId::new(1).unwrap(), ProductId::new(2).unwrap());
    for (of, product) in [("", None), (" of the first product", Some(ours)), (" of the other product", Some(other))] {
        let query = KeyQuery { product, ..page.clone() };
        figures.push(searched(delivery, &format!("search for keys{of}"), &query).await);
        for status in [Status::Valid, Status::Revoked, Status::Expired, Status::Exhausted] {
            let query = KeyQuery { status: Some((status, SystemClock::default().now())), ..query.clone() };
            figures.push(searched(delivery, &format!("search for {} keys{of}", status.as_str()), &query).await);
        }
    }
    let query = KeyQuery { source: "gumroad".parse().ok(), ..page.clone() };
    figures.push(searched(delivery, "search for keys of a platform", &query).await);
    let (counted, took) = timed(delivery.desk(&Actor::admin()).figures(30)).await;
    let took = if counted.is_ok_and(|counted| !counted.keys.is_empty()) { took.as_secs_f64() } else { f64::NAN };
    figures.push(figure("figures of 30 days", took * 1e3, "ms"));
    figures
}

async fn searched(delivery: &Delivery, what: &str, query: &KeyQuery) -> Figure {
    let (found, took) = timed(delivery.keys(query)).await;
    let took = match found {
        Ok(_) => took.as_secs_f64(),
        Err(StoreError::Unavailable { .. }) => f64::INFINITY,
        Err(error) => panic!("{error:?}"),
    };
    figure(what, took * 1e3, "ms")
}

fn each(what: &str, took: std::time::Duration, calls: usize) -> Figure {
    #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
    let each = took.as_secs_f64() * 1e6 / calls as f64;
    figure(what, each, "µs")
}

fn per_second(what: &str, took: std::time::Duration, calls: usize) -> Figure {
    #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
    let per_second = calls as f64 / took.as_secs_f64();
    figure(what, per_second / 1e3, "k/s")
}

async fn all<F: Future<Output = ()>>(numbers: &[i64], act: impl Fn(i64) -> F) {
    stream::iter(numbers).for_each_concurrent(CALLERS, |number| act(*number)).await;
}

/// A key as its buyer has it, in a query.
fn query(number: i64) -> Call {
    let keyring = keyring_once();
    Call::new(Method::GET).query(format!("key={}&product_id=1", keyring.text(id(number), keyring.newest()).expose()))
}

fn keyring_once() -> &'static Keyring {
    static KEYRING: std::sync::LazyLock<Keyring> = std::sync::LazyLock::new(keyring);
    &KEYRING
}

async fn validate(delivery: &Delivery, number: i64) {
    let status = Endpoint::Validate.call(delivery, query(number)).await.status();
    assert_eq!(status, 200, "{number}");
}

async fn fetch(delivery: &Delivery, number: i64) {
    let status = Endpoint::Product.call(delivery, query(number)).await.status();
    assert_eq!(status, 200, "{number}");
}

async fn order(delivery: &Delivery, number: i64) {
    let body = json!({
        "order_id": format!("order-{number}"), "product_id": 1, "customer_email": "a@example.com", "secret": SECRET,
    });
    let answered = Endpoint::Order.call(delivery, Call::new(Method::POST).json(body.to_string())).await;
    assert_eq!(answered.status(), 200);
}
