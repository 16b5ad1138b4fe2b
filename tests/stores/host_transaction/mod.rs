//! A key that is issued inside a transaction of the host's: their order and our key are one commit, or none of them is.

mod postgres;
mod sqlite;

use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::ledger::Issue;
use delivery_core::order::Order;
use delivery_core::store::{CatalogEditor, KeyQuery, Ledger, Posts, StoreError};
use delivery_testing::{RecordingMailer, Shop};
use tempfile::TempDir;

use super::fixtures::{self, product, reference, shop};

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
    /// Where the store is, if it is in a file.
    _folder: Option<TempDir>,
}

async fn host<S: Ledger + CatalogEditor + Posts>(store: S, url: String, folder: Option<TempDir>) -> Host<S> {
    let store = Arc::new(store);
    let Shop { delivery, mailer, .. } = shop(store.clone()).await;
    Host { store, delivery, mailer, url, _folder: folder }
}

fn order(id: &str) -> Order {
    Order { reference: reference(id), product: product(), email: "b@example.com".parse().unwrap() }
}

impl<S: Transact> Host<S> {
    async fn transact(&self, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind> {
        S::transact(self, id, commit).await
    }

    async fn orders(&self) -> i64 {
        S::orders(self).await
    }

    /// The key that the webhook answers with. The platform knows the buyer by another address than the host.
    async fn webhook(&self, id: &str) -> String {
        fixtures::sold(&self.delivery, id).await
    }

    async fn keys(&self) -> usize {
        self.delivery.keys(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.unwrap().items.len()
    }

    async fn sent(&self) -> usize {
        self.delivery.maintenance().outbox().work().await.unwrap();
        self.mailer.accepted().len()
    }
}

/// What a host does: its own row and our key, then a commit or not.
trait Transact: Sized {
    async fn transact(host: &Host<Self>, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind>;
    async fn orders(host: &Host<Self>) -> i64;
}

async fn a_rollback_leaves_nothing(host: Host<impl Transact>) {
    assert!(matches!(host.transact("A-1", false).await, Err(ChangedItsMind)));
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (0, 0, 0));
    // Nor a trace in a cache: the order is new to the webhook.
    let key = host.webhook("A-1").await;
    assert!(host.delivery.validate(&key).await.is_ok());
    assert_eq!((host.keys().await, host.sent().await), (1, 1));
}

async fn a_commit_is_an_order_a_key_and_one_message(host: Host<impl Transact>) {
    let issued = host.delivery.committed(host.transact("A-1", true).await.unwrap());
    assert!(issued.new);
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
    let text = issued.text.expose();
    assert!(host.mailer.accepted()[0].text.contains(text));
    // It is used like any other key, at once.
    let id = host.delivery.verify(text).unwrap();
    let used = host.delivery.count_use(id, product()).await.unwrap();
    assert_eq!((used.used(), used.email().as_str()), (1, "b@example.com"));
}

async fn a_replay_by_webhook_answers_with_the_key_and_sends_nothing(host: Host<impl Transact>) {
    let issued = host.delivery.committed(host.transact("A-1", true).await.unwrap());
    assert_eq!(host.webhook("A-1").await, issued.text.expose());
    assert_eq!((host.keys().await, host.sent().await), (1, 1));
}

async fn an_order_that_the_webhook_told_of_is_answered_with_its_key(host: Host<impl Transact>) {
    let key = host.webhook("A-1").await;
    let issued = host.delivery.committed(host.transact("A-1", true).await.unwrap());
    assert_eq!((issued.text.expose(), issued.new), (key.as_str(), false));
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
}

async fn an_order_told_by_both_at_once_has_one_key(host: Host<impl Transact>) {
    for id in ["R-0", "R-1", "R-2", "R-3", "R-4", "R-5", "R-6", "R-7", "R-8", "R-9"] {
        let (inside, outside) = tokio::join!(host.transact(id, true), host.webhook(id));
        assert_eq!(host.delivery.committed(inside.unwrap()).text.expose(), outside);
    }
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (10, 10, 10));
}

macro_rules! promises {
    ($($promise:ident),+ $(,)?) => {
        mod on_postgres { $(test_of!(postgres $promise, super::postgres::host(false).await);)+ }
        mod on_a_pool { $(test_of!(postgres $promise, super::postgres::host(true).await);)+ }
        mod on_sqlite { $(test_of!($promise, super::sqlite::host().await);)+ }
    };
}

promises! {
    a_rollback_leaves_nothing,
    a_commit_is_an_order_a_key_and_one_message,
    a_replay_by_webhook_answers_with_the_key_and_sends_nothing,
    an_order_that_the_webhook_told_of_is_answered_with_its_key,
    an_order_told_by_both_at_once_has_one_key,
}
