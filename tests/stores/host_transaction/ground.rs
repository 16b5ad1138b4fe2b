//! A host with a table of its own, and what it does in a transaction.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use delivery_core::Delivery;
use delivery_core::delivery::{Builder, Issued, Uncommitted};
use delivery_core::key::{Actor, Denied, Key, KeyId, Rule};
use delivery_core::observer::{Event, Observer};
use delivery_core::order::Order;
use delivery_core::store::{AuditQuery, CatalogEditor, HostTransaction, KeyQuery, Ledger, Posts, StoreError};
use delivery_testing::{RecordingMailer, Shop};
use futures_util::future::BoxFuture;
use tempfile::TempDir;

use crate::fixtures::{self, product, reference};

/// Why the host's transaction ended without a commit.
#[derive(Debug)]
pub struct ChangedItsMind;

impl From<StoreError> for ChangedItsMind {
    fn from(error: StoreError) -> Self {
        panic!("{error:?}")
    }
}

/// A host with a table of orders of its own, in the same database.
pub struct Host<S> {
    pub store: Arc<S>,
    pub delivery: Delivery,
    pub mailer: Arc<RecordingMailer>,
    /// What observers were told.
    pub observed: Arc<ObservedEvents>,
    /// Where the host's connections go.
    pub url: String,
    /// Where the store is, if it is in a file.
    _folder: Option<TempDir>,
}

#[derive(Debug, Default)]
pub struct ObservedEvents(Mutex<Vec<&'static str>>);

/// A rule of the host's for keys of 777 uses.
#[derive(Debug)]
pub struct Once;

impl Rule for Once {
    fn judge(&self, key: &Key, _: DateTime<Utc>) -> Result<(), Denied> {
        const ONCE: Denied = Denied::new("ONCE", "This key can be used once.");
        if key.limit().as_count() == 777 && key.used() > 1 { Err(ONCE) } else { Ok(()) }
    }
}

impl Observer for ObservedEvents {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(match event {
            Event::Issued { .. } => "issued",
            Event::Used { .. } => "used",
            Event::Revoked { .. } => "revoked",
            Event::TermsChanged { .. } => "changed",
            _ => "other",
        });
    }
}

pub async fn host<S: Ledger + CatalogEditor + Posts>(store: S, url: String, folder: Option<TempDir>) -> Host<S> {
    let (store, observed) = (Arc::new(store), Arc::new(ObservedEvents::default()));
    let sink = observed.clone();
    let build = |builder: Builder| builder.observer(sink).rule(Arc::new(Once));
    let Shop { delivery, mailer, .. } = fixtures::shop_with(store.clone(), build).await;
    Host { store, delivery, mailer, observed, url, _folder: folder }
}

pub fn order(id: &str) -> Order {
    Order { reference: reference(id), product: product(), email: "b@example.com".parse().unwrap() }
}

/// What is done inside the transaction.
pub trait Work<T>: for<'t> FnOnce(Delivery, HostTransaction<'t>) -> BoxFuture<'t, T> + Send + 'static {}

impl<T, W: for<'t> FnOnce(Delivery, HostTransaction<'t>) -> BoxFuture<'t, T> + Send + 'static> Work<T> for W {}

/// A database of the host's.
pub trait Transact: Sized {
    /// Does work in a transaction, then commits or does not.
    async fn within<T: Send + 'static>(host: &Host<Self>, commit: bool, work: impl Work<T>) -> T;
}

/// A statement of the host's.
pub async fn execute(transaction: &mut HostTransaction<'_>, statement: &'static str) {
    match transaction {
        HostTransaction::Sqlite(connection) => sqlx::raw_sql(statement).execute(&mut **connection).await.map(drop),
        HostTransaction::Postgres(connection) => sqlx::raw_sql(statement).execute(&mut **connection).await.map(drop),
        _ => unreachable!(),
    }
    .unwrap();
}

impl<S: Transact> Host<S> {
    pub async fn within<T: Send + 'static>(&self, commit: bool, work: impl Work<T>) -> T {
        S::within(self, commit, work).await
    }

    /// The host's own row and our key, then a commit or not.
    pub async fn transact(&self, id: &'static str, commit: bool) -> Uncommitted<Issued> {
        let sale = self.delivery.prepare(order(id)).await.unwrap();
        self.within(commit, move |delivery, mut transaction| {
            Box::pin(async move {
                let insert = format!("INSERT INTO shop_order (id) VALUES ('{id}')");
                execute(&mut transaction, insert.leak()).await;
                let issued = delivery.issue_in(&mut transaction, &sale).await.unwrap();
                // The host's own tables are found as before.
                execute(&mut transaction, "SELECT count(*) FROM shop_order").await;
                issued
            })
        })
        .await
    }

    pub async fn bought(&self, id: &'static str) -> Issued {
        self.transact(id, true).await.committed()
    }

    pub async fn orders(&self) -> i64 {
        const COUNT: &str = "SELECT count(*) FROM shop_order";
        self.within(false, |_, transaction| {
            Box::pin(async move {
                match transaction {
                    HostTransaction::Sqlite(mut connection) => {
                        sqlx::query_scalar(COUNT).fetch_one(&mut *connection).await.unwrap()
                    }
                    HostTransaction::Postgres(connection) => {
                        sqlx::query_scalar(COUNT).fetch_one(connection).await.unwrap()
                    }
                    _ => unreachable!(),
                }
            })
        })
        .await
    }

    /// The key that the webhook answers with. The platform knows the buyer by another address than the host.
    pub async fn webhook(&self, id: &str) -> String {
        fixtures::sold(&self.delivery, id).await
    }

    pub async fn keys(&self) -> usize {
        self.delivery.keys(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.unwrap().items.len()
    }

    pub async fn key(&self, id: KeyId) -> Key {
        self.delivery.key(id).await.unwrap().unwrap()
    }

    /// What observers were told since this was asked before.
    pub async fn observed(&self) -> Vec<&'static str> {
        self.delivery.flush_observers().await;
        std::mem::take(&mut self.observed.0.lock().unwrap())
    }

    pub async fn audited(&self) -> usize {
        let query = AuditQuery { limit: 100, ..AuditQuery::default() };
        self.delivery.desk(&Actor::admin()).audit(&query).await.unwrap().items.len()
    }

    pub async fn sent(&self) -> usize {
        self.delivery.maintenance().outbox().work().await.unwrap();
        self.mailer.accepted().len()
    }

    /// A key with this many uses.
    pub async fn key_with(&self, uses: i64) -> KeyId {
        let email = "a@example.com".parse().unwrap();
        let terms = fixtures::limited(uses);
        let issued = self.delivery.issue_by_hand(product(), email, terms, false).await.unwrap();
        self.observed().await;
        issued.key.id()
    }
}
