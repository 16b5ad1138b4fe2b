//! Storms of requests, over every store: what must come out exact whatever the order of events.

use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Grant};
use delivery_core::key::{Keyring, Prefix};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{CatalogEditor, KeyQuery, Ledger, MemoryStore, Posts, SqliteStore};
use delivery_core::terms::{OwnTerms, UseLimit};
use delivery_testing::RecordingMailer;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

async fn shop<S: Ledger + CatalogEditor + Posts>(store: S) -> (Delivery, Arc<RecordingMailer>) {
    let mailer = Arc::new(RecordingMailer::default());
    let keyring = Keyring::new(Prefix::default(), &["a secret for races".parse().unwrap()]).unwrap();
    let (webhook, admin) = ("the platform's secret".parse().unwrap(), "the-seller's-token".parse().unwrap());
    let plenty = Quota::per_minute(1_000_000).unwrap();
    let quotas = Quotas { product: plenty, webhook: plenty, ..Quotas::default() };
    let delivery = Delivery::builder(Arc::new(store), mailer.clone(), keyring)
        .webhook_secret(webhook)
        .admin_token(admin)
        .quotas(quotas)
        .build();
    delivery.add_product(NewProduct::new("Guide").unwrap().content("# Guide").unwrap()).await.unwrap();
    (delivery, mailer)
}

fn sqlite(folder: &tempfile::TempDir) -> impl Future<Output = SqliteStore> {
    let path = folder.path().join("delivery.db");
    async { SqliteStore::open(path).await.unwrap() }
}

fn order(id: &str) -> Call {
    let secret = "the platform's secret";
    let body = json!({ "order_id": id, "product_id": 1, "customer_email": "a@example.com", "secret": secret });
    Call::new(Method::POST).json(body.to_string())
}

/// Calls an endpoint so many times at once; the statuses and bodies.
async fn storm(delivery: &Delivery, endpoint: Endpoint, count: usize, call: impl Fn() -> Call) -> Vec<(u16, Value)> {
    let mut callers = JoinSet::new();
    for _ in 0..count {
        let (delivery, call) = (delivery.clone(), call());
        callers.spawn(async move {
            let reply = endpoint.call(&delivery, call).await;
            (reply.status().as_u16(), serde_json::from_slice(reply.body()).unwrap())
        });
    }
    callers.join_all().await
}

async fn one_order_told_a_hundred_times_is_one_key_and_one_message<S: Ledger + CatalogEditor + Posts>(store: S) {
    let (delivery, mailer) = shop(store).await;
    let answers = storm(&delivery, Endpoint::Order, 100, || order("A")).await;
    assert!(answers.iter().all(|answer| answer == answers.first().unwrap()), "all answer alike");
    assert_eq!(answers.first().unwrap().0, 200);
    assert_eq!(delivery.keys(&KeyQuery { limit: 10, ..KeyQuery::default() }).await.unwrap().items.len(), 1);
    delivery.outbox().work().await.unwrap();
    assert_eq!(mailer.accepted().len(), 1);
}

async fn of_a_hundred_fetches_exactly_the_limit_is_served<S: Ledger + CatalogEditor + Posts>(store: S) {
    let (delivery, _) = shop(store).await;
    for limit in [1, 7, 99, 100, 150] {
        let terms = OwnTerms { limit: UseLimit::from_count(limit).ok(), ..OwnTerms::default() };
        let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
        let key = delivery.issue_by_hand(product, email, terms, false).await.unwrap();
        let query = format!("product_id=1&key={}", key.text.expose());
        let answers = storm(&delivery, Endpoint::Product, 100, || Call::new(Method::GET).query(&*query)).await;
        let served = answers.iter().filter(|(status, _)| *status == 200).count();
        let refused = answers.iter().filter(|(status, _)| *status == 403).count();
        assert_eq!((served, refused), (usize::try_from(limit).unwrap().min(100), 100 - served));
        let (_, answer) =
            storm(&delivery, Endpoint::Validate, 1, || Call::new(Method::GET).query(&*query)).await.remove(0);
        assert_eq!(answer["used_count"], served);
    }
}

async fn callers_that_hang_up_leave_every_count_true<S: Ledger + CatalogEditor + Posts>(store: S) {
    let (delivery, _) = shop(store).await;
    let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
    let key = delivery.issue_by_hand(product, email, OwnTerms::default(), false).await.unwrap();
    let query = format!("product_id=1&key={}", key.text.expose());
    let mut served = 0;
    for round in 0..300 {
        let (delivery, call) = (delivery.clone(), Call::new(Method::GET).query(&*query));
        let caller = tokio::spawn(async move { Endpoint::Product.call(&delivery, call).await });
        for _ in 0..round % 4 {
            tokio::task::yield_now().await;
        }
        if round % 3 > 0 {
            caller.abort();
        }
        served += u64::from(caller.await.is_ok_and(|reply| reply.status() == 200));
    }
    let last = Endpoint::Product.call(&delivery, Call::new(Method::GET).query(&*query)).await;
    assert_eq!(last.status(), 200);
    let known = delivery.validate(key.text.expose()).await.unwrap();
    let remembered = delivery.history(known.id(), None, 1000).await.unwrap().items.len() as u64;
    assert!((served + 1..=301).contains(&known.used()), "every answered use is counted");
    assert_eq!(known.used(), remembered, "and none is counted without a trace");
}

/// The promise of a key with k uses, while callers hang up at any moment: every count is handed out at most once, and
/// exactly k are spent when nothing is left.
async fn of_n_fetches_that_may_hang_up_exactly_the_limit_is_spent<S: Ledger + CatalogEditor + Posts>(store: S) {
    const LIMIT: u64 = 40;
    let (delivery, _) = shop(store).await;
    let terms = OwnTerms { limit: UseLimit::from_count(40).ok(), ..OwnTerms::default() };
    let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
    let key = delivery.issue_by_hand(product, email, terms, false).await.unwrap();
    let grant =
        Grant::of(&delivery, &Call::new(Method::GET).query(format!("key={}", key.text.expose()))).await.unwrap();
    let mut callers = JoinSet::new();
    let mut hung_up = Vec::new();
    for caller in 0..120 {
        let grant = grant.clone();
        let handle = callers.spawn(async move { grant.count_use(product).await.map(|key| key.used()) });
        if caller % 3 == 0 {
            hung_up.push(handle);
        }
        if caller % 7 == 0 {
            tokio::task::yield_now().await;
            hung_up.drain(..).for_each(|caller| caller.abort());
        }
    }
    let mut counts = Vec::new();
    while let Some(answer) = callers.join_next().await {
        // Those that hung up were told nothing.
        counts.extend(answer.ok().and_then(Result::ok));
    }
    let told = counts.len();
    counts.sort_unstable();
    counts.dedup();
    assert_eq!(counts.len(), told, "no count is handed out twice");
    while grant.count_use(product).await.is_ok() {}
    let known = delivery.history(key.key.id(), None, 1000).await.unwrap().items.len() as u64;
    let refused = delivery.validate(key.text.expose()).await.unwrap_err();
    assert_eq!((refused.code().as_str(), known), ("EXCEEDED_USES", LIMIT));
    assert!(counts.iter().all(|count| (1..=LIMIT).contains(count)));
}

/// Each race is a test over each store.
macro_rules! races {
    ($($race:ident),+ $(,)?) => {
        mod memory { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $race() {
                super::$race(super::MemoryStore::new()).await;
            }
        )+ }
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $race() {
                let folder = tempfile::tempdir().unwrap();
                super::$race(super::sqlite(&folder).await).await;
            }
        )+ }
        mod postgres { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[cfg_attr(without = "postgres", ignore = "needs postgres")]
            async fn $race() {
                let server = support::postgres::postgres();
                let name = support::postgres::unique();
                let store = delivery_core::store::PostgresStore::options().schema(&name).connect(&server.url()).await.unwrap();
                super::$race(store).await;
            }
        )+ }
        mod postgres_pool { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[cfg_attr(without = "postgres", ignore = "needs postgres")]
            async fn $race() {
                let server = support::postgres::postgres();
                let pool = sqlx::PgPool::connect(&server.url()).await.unwrap();
                let options = delivery_core::store::PostgresStore::options();
                let store = options.schema(support::postgres::unique()).with_pool(pool).await.unwrap();
                super::$race(store).await;
            }
        )+ }
    };
}

races! {
    one_order_told_a_hundred_times_is_one_key_and_one_message,
    of_a_hundred_fetches_exactly_the_limit_is_served,
    callers_that_hang_up_leave_every_count_true,
    of_n_fetches_that_may_hang_up_exactly_the_limit_is_spent,
}
