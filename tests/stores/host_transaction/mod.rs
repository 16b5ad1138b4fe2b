//! A key that is issued inside a transaction of the host's: their order and our key are one commit, or none of them is.

mod postgres;
mod sqlite;

use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Keyring, Prefix};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::order::{Order, OrderRef, Source};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{CatalogEditor, Issue, KeyQuery, Ledger, Posts, StoreError};
use delivery_testing::RecordingMailer;
use http::Method;
use serde_json::{Value, json};

const SECRET: &str = "the platform's secret";

/// Why the host's transaction ended without a commit.
#[derive(Debug)]
struct ChangedItsMind;

impl From<StoreError> for ChangedItsMind {
    fn from(error: StoreError) -> Self {
        panic!("{error:?}")
    }
}

/// A host with a table of orders of its own, in the same database.
struct Host<S> {
    store: Arc<S>,
    delivery: Delivery,
    mailer: Arc<RecordingMailer>,
    /// Where the host's connections go.
    url: String,
}

async fn host<S: Ledger + CatalogEditor + Posts>(store: S, url: String) -> Host<S> {
    let (store, mailer) = (Arc::new(store), Arc::new(RecordingMailer::default()));
    let keyring = Keyring::new(Prefix::default(), &["a secret for hosts".parse().unwrap()]).unwrap();
    let plenty = Quota::per_minute(1_000_000).unwrap();
    let quotas = Quotas { webhook: plenty, ..Quotas::default() };
    let delivery = Delivery::builder(store.clone(), mailer.clone(), keyring)
        .webhook_secret(SECRET.parse().unwrap())
        .quotas(quotas)
        .build();
    delivery.add_product(NewProduct::new("Guide").unwrap().content("# Guide").unwrap()).await.unwrap();
    Host { store, delivery, mailer, url }
}

fn order(id: &str) -> Order {
    let reference = OrderRef { source: Source::webhook(), id: id.parse().unwrap() };
    Order { reference, product: ProductId::new(1).unwrap(), email: "a@example.com".parse().unwrap() }
}

impl<S> Host<S> {
    /// The key that the webhook answers with.
    async fn webhook(&self, id: &str) -> String {
        let body = json!({ "order_id": id, "product_id": 1, "customer_email": "b@example.com", "secret": SECRET });
        let reply = Endpoint::Order.call(&self.delivery, Call::new(Method::POST).json(body.to_string())).await;
        let body: Value = serde_json::from_slice(reply.body()).unwrap();
        body["api_key"].as_str().expect("a key").to_owned()
    }

    async fn keys(&self) -> usize {
        self.delivery.keys(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.unwrap().items.len()
    }

    async fn sent(&self) -> usize {
        self.delivery.outbox().work().await.unwrap();
        self.mailer.accepted().len()
    }
}

/// What a host does: its own row and our key, then a commit or not.
trait Transact {
    async fn transact(&self, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind>;
    async fn orders(&self) -> i64;
}

async fn a_rollback_leaves_nothing<S>(host: Host<S>)
where
    Host<S>: Transact,
{
    assert!(matches!(host.transact("A-1", false).await, Err(ChangedItsMind)));
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (0, 0, 0));
    // Nor a trace in a cache: the order is new to the webhook.
    let key = host.webhook("A-1").await;
    assert!(host.delivery.validate(&key).await.is_ok());
    assert_eq!((host.keys().await, host.sent().await), (1, 1));
}

async fn a_commit_is_an_order_a_key_and_one_message<S>(host: Host<S>)
where
    Host<S>: Transact,
{
    let issued = host.delivery.committed(host.transact("A-1", true).await.unwrap());
    assert!(issued.new);
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
    let text = issued.text.expose();
    assert!(host.mailer.accepted()[0].text.contains(text));
    // It is used like any other key, at once.
    let id = host.delivery.verify(text).unwrap();
    let used = host.delivery.count_use(id, ProductId::new(1).unwrap()).await.unwrap();
    assert_eq!((used.used(), used.email().as_str()), (1, "a@example.com"));
}

async fn a_replay_by_webhook_answers_with_the_key_and_sends_nothing<S>(host: Host<S>)
where
    Host<S>: Transact,
{
    let issued = host.delivery.committed(host.transact("A-1", true).await.unwrap());
    assert_eq!(host.webhook("A-1").await, issued.text.expose());
    assert_eq!((host.keys().await, host.sent().await), (1, 1));
}

async fn an_order_that_the_webhook_told_of_is_answered_with_its_key<S>(host: Host<S>)
where
    Host<S>: Transact,
{
    let key = host.webhook("A-1").await;
    let issued = host.delivery.committed(host.transact("A-1", true).await.unwrap());
    assert_eq!((issued.text.expose(), issued.new), (key.as_str(), false));
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
}

async fn an_order_told_by_both_at_once_has_one_key<S: Send + Sync + 'static>(host: Host<S>)
where
    Host<S>: Transact,
{
    for id in ["R-0", "R-1", "R-2", "R-3", "R-4", "R-5", "R-6", "R-7", "R-8", "R-9"] {
        let (inside, outside) = tokio::join!(host.transact(id, true), host.webhook(id));
        assert_eq!(host.delivery.committed(inside.unwrap()).text.expose(), outside);
    }
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (10, 10, 10));
}

macro_rules! promises {
    ($($promise:ident),+ $(,)?) => {
        mod on_postgres { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[cfg_attr(without = "postgres", ignore = "needs postgres")]
            async fn $promise() {
                super::$promise(super::postgres::host(false).await).await;
            }
        )+ }
        mod on_a_pool { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[cfg_attr(without = "postgres", ignore = "needs postgres")]
            async fn $promise() {
                super::$promise(super::postgres::host(true).await).await;
            }
        )+ }
        mod on_sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                super::$promise(super::sqlite::host(&folder).await).await;
            }
        )+ }
    };
}

promises! {
    a_rollback_leaves_nothing,
    a_commit_is_an_order_a_key_and_one_message,
    a_replay_by_webhook_answers_with_the_key_and_sends_nothing,
    an_order_that_the_webhook_told_of_is_answered_with_its_key,
    an_order_told_by_both_at_once_has_one_key,
}
