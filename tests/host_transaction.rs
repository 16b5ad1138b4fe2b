//! A key that is issued inside a transaction of the host's: their order and our key are one commit, or none of them is.

#[path = "private/postgres.rs"]
mod postgres_server;
#[path = "private/mod.rs"]
mod private;

use std::sync::Arc;
use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Keyring, Prefix};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::order::{Order, OrderRef, Source};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{CatalogEditor, Issue, KeyQuery, Ledger, PostgresStore, Posts, SqliteStore, StoreError};
use delivery_core::terms::OwnTerms;
use delivery_testing::RecordingMailer;
use http::Method;
use postgres_server::{postgres, unique};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;

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

impl Transact for Host<PostgresStore> {
    async fn transact(&self, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind> {
        let sale = self.delivery.prepare(order(id)).await.unwrap();
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let insert = sqlx::query("INSERT INTO shop_order (id) VALUES ($1)").bind(id);
        insert.execute(&mut *transaction).await.unwrap();
        let issue = self.store.issue_in(&mut transaction, &sale).await?;
        // The host's own tables are found as before.
        transaction.execute("SELECT count(*) FROM shop_order").await.unwrap();
        if !commit {
            transaction.rollback().await.unwrap();
            return Err(ChangedItsMind);
        }
        transaction.commit().await.unwrap();
        Ok(issue)
    }

    async fn orders(&self) -> i64 {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        sqlx::query_scalar("SELECT count(*) FROM shop_order").fetch_one(&mut connection).await.unwrap()
    }
}

impl Transact for Host<SqliteStore> {
    async fn transact(&self, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind> {
        let sale = self.delivery.prepare(order(id)).await.unwrap();
        let work = self.store.transaction(move |mut transaction| {
            Box::pin(async move {
                let insert = sqlx::query("INSERT INTO shop_order (id) VALUES (?)").bind(id);
                insert.execute(&mut *transaction).await.unwrap();
                let issue = transaction.issue(&sale).await?;
                if commit { Ok(issue) } else { Err(ChangedItsMind) }
            })
        });
        work.await
    }

    async fn orders(&self) -> i64 {
        let count = self.store.transaction(|mut transaction| {
            Box::pin(async move {
                let count = sqlx::query_scalar("SELECT count(*) FROM shop_order").fetch_one(&mut *transaction).await;
                Ok::<i64, StoreError>(count.unwrap())
            })
        });
        count.await.unwrap()
    }
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
        mod postgres { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let Some(host) = super::postgres_host(false).await else { return };
                super::$promise(host).await;
            }
        )+ }
        mod postgres_pool { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let Some(host) = super::postgres_host(true).await else { return };
                super::$promise(host).await;
            }
        )+ }
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                super::$promise(super::sqlite_host(&folder).await).await;
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

/// A database of its own, with the host's table in the schema `public` and ours in another.
async fn postgres_host(pooled: bool) -> Option<Host<PostgresStore>> {
    let server = postgres()?;
    let name = unique();
    let mut admin = PgConnection::connect(&server.url()).await.unwrap();
    admin.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let url = format!("postgres://postgres@{}/{name}", server.address());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute("CREATE TABLE shop_order (id TEXT PRIMARY KEY)").await.unwrap();
    let options = PostgresStore::options().schema("keys");
    let store = if pooled {
        options.with_pool(sqlx::PgPool::connect(&url).await.unwrap()).await
    } else {
        options.connect_with(url.parse().unwrap()).await
    };
    Some(host(store.unwrap(), url).await)
}

async fn sqlite_host(folder: &tempfile::TempDir) -> Host<SqliteStore> {
    let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
    let make = store.transaction(|mut transaction| {
        Box::pin(async move {
            transaction.execute("CREATE TABLE shop_order (id TEXT PRIMARY KEY)").await.unwrap();
            Ok::<(), StoreError>(())
        })
    });
    make.await.unwrap();
    host(store, String::new()).await
}

#[tokio::test]
async fn postgres_without_a_transaction_refuses_and_issues_nothing() {
    let Some(host) = postgres_host(false).await else { return };
    let sale = host.delivery.prepare(order("A-1")).await.unwrap();
    let mut connection = PgConnection::connect(&host.url).await.unwrap();
    let refused = host.store.issue_in(&mut connection, &sale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(host.keys().await, 0);
}

/// What fails inside leaves the host's transaction as it was.
#[tokio::test]
async fn postgres_after_an_error_the_transaction_of_the_host_goes_on() {
    let Some(host) = postgres_host(false).await else { return };
    let sale = host.delivery.prepare(order("A-1")).await.unwrap();
    let mut connection = PgConnection::connect(&host.url).await.unwrap();
    let mut other = PgConnection::connect(&host.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    lock.execute("LOCK TABLE keys.delivery_purchase").await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    transaction.execute("SET LOCAL lock_timeout = 50").await.unwrap();
    let refused = host.store.issue_in(&mut transaction, &sale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused:?}");
    lock.rollback().await.unwrap();
    let path: String = sqlx::query_scalar("SHOW search_path").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(path, "\"$user\", public");
    assert!(matches!(host.store.issue_in(&mut transaction, &sale).await, Ok(Issue::New(_))));
    transaction.execute("INSERT INTO shop_order (id) VALUES ('A-1')").await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
}

/// Two keys by hand in one transaction, which a crash of the host's code rolls back.
#[tokio::test]
async fn sqlite_goes_on_after_a_panic_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let host = sqlite_host(&folder).await;
    let by_hand = || {
        host.delivery.prepare_by_hand(
            ProductId::new(1).unwrap(),
            "a@example.com".parse().unwrap(),
            OwnTerms::default(),
            true,
        )
    };
    let sales = [by_hand().await.unwrap(), by_hand().await.unwrap()];
    let store = host.store.clone();
    let doomed = sales.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let work = store.transaction(move |mut transaction| {
            Box::pin(async move {
                for sale in &doomed {
                    transaction.issue(sale).await?;
                }
                panic!("a bug of the host's");
                #[expect(unreachable_code, reason = "the type of the error")]
                Ok::<(), StoreError>(())
            })
        });
        work.await
    });
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_panic());
    assert_eq!((host.keys().await, host.sent().await), (0, 0));
    let work = host.store.transaction(move |mut transaction| {
        Box::pin(async move {
            for sale in &sales {
                transaction.issue(sale).await?;
            }
            Ok::<(), StoreError>(())
        })
    });
    work.await.unwrap();
    assert_eq!((host.keys().await, host.sent().await), (2, 2));
}

/// A host that rolls back a part of its transaction, and one that ends it by itself.
#[tokio::test]
async fn sqlite_what_the_host_rolled_back_or_committed_itself_is_what_the_store_knows() {
    for (before, after, committed) in [
        ("SAVEPOINT item", "ROLLBACK TO item", Some(false)),
        ("SAVEPOINT item", "RELEASE item", Some(true)),
        ("SELECT 1", "ROLLBACK; BEGIN", Some(false)),
        ("SELECT 1", "COMMIT", None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let host = sqlite_host(&folder).await;
        let sale = host.delivery.prepare(order("A-1")).await.unwrap();
        let id = sale.key.id;
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                transaction.execute(before).await.unwrap();
                transaction.issue(&sale).await?;
                sqlx::raw_sql(after).execute(&mut *transaction).await.unwrap();
                Ok::<(), StoreError>(())
            })
        });
        let is_known = match (work.await, committed) {
            (Ok(()), Some(committed)) => committed,
            (Err(StoreError::Unknown { .. }), None) => true,
            (ended, _) => panic!("{after}: {ended:?}"),
        };
        assert_eq!(host.store.find(id).await.unwrap().is_some(), is_known, "{after}");
        // Numbers go on: what is sold next is sold, and used.
        for order in ["A-1", "A-2", "A-3"] {
            let id = host.delivery.verify(&host.webhook(order).await).unwrap();
            assert_eq!(host.delivery.count_use(id, ProductId::new(1).unwrap()).await.unwrap().used(), 1, "{after}");
        }
        assert_eq!(host.keys().await, 3, "{after}");
    }
}

/// Time is the runtime's: nobody waits for four seconds.
#[tokio::test]
async fn sqlite_rolls_back_a_transaction_that_takes_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let host = sqlite_host(&folder).await;
    let sale = host.delivery.prepare(order("A-1")).await.unwrap();
    let work = host.store.transaction(move |mut transaction| {
        Box::pin(async move {
            transaction.issue(&sale).await?;
            tokio::time::pause();
            tokio::time::advance(Duration::from_millis(4001)).await;
            tokio::time::resume();
            std::future::pending::<Result<(), StoreError>>().await
        })
    });
    let refused = work.await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
    assert_eq!(host.keys().await, 0);
    assert!(host.delivery.validate(&host.webhook("A-1").await).await.is_ok());
}
