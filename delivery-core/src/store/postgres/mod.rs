//! The store that many servers share: keys, orders, messages, products and posts in a schema of PostgreSQL.
//!
//! ```text
//! issue, change, use ──► two work queues ──► writers: load, plan, persist, a statement per kind of write ──► answers
//! event, rotation    ──► a work queue of their own ──► a writer: lock, load, plan, persist in one commit ──► answers
//! claim, prune, …    ──► a work queue of their own, so that no customer waits for them
//! find               ──► finder: one query for all keys that were requested during the last query
//! search, lists      ──► a few pooled sessions
//! ```
//!
//! A use whose request has an `Idempotency-Key` is processed like an event.
//!
//! Another server may change any row at any time. Therefore:
//!
//! - A writer writes a key only if the key's row still has the [version](version_cache) with which the batch was
//!   planned.
//! - A unique index ensures that an order has only one key for each product.
//! - Messages are leased with `SKIP LOCKED`, so that servers share the sending.
//! - If the database's reply to a batch is lost, the writer [finds out](resolve) what the batch has written.

mod address;
mod alias;
mod cold;
mod connect;
mod dump;
mod error;
mod host;
mod hosts;
mod inbox;
mod inspect;
mod load;
mod locked;
mod messages;
mod numbers;
mod options;
mod persist;
mod read;
mod request;
mod resolve;
mod schema;
mod session;
mod trips;
mod version_cache;
mod watch;
mod writer;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use self::connect::Sessions;
pub use self::error::PostgresError;
use self::load::Finder;
pub use self::options::PostgresOptions;
use self::session::Session;
use self::writer::Writer;
use super::batch::BatchQueue;
use super::cache::{PostCache, ProductCache};
use super::sql::messages::{retry, retry_all};
use super::sql::{WorkQueue, history, keyring};
use super::{Backend, HostTransactions, KeyQuery, Ledger, Office, Page, StoreError, Use, UseId};
use crate::key::{Fingerprint, Key, KeyId};
use crate::ledger::operation::Subject;
use crate::ledger::{Answer, Edit, FailedMessage, Lease, LeasedMessage, MessageNumber, Operation, Route};

/// The default schema.
const SCHEMA: &str = "delivery";

/// A store of keys, orders, messages, products and posts in PostgreSQL 14 or newer, shared by any number of servers.
///
/// While the database is unavailable, every method that needs it fails with [`StoreError::Unavailable`] within seconds.
/// The methods work again as soon as the database has recovered. A process that uses the store opens at most nine
/// sessions, or uses the host application's pool: see [`PostgresOptions`].
pub struct PostgresStore {
    tasks: Mutex<Option<Tasks>>,
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
    sessions: Sessions,
    products: Arc<ProductCache>,
    posts: Arc<PostCache>,
    watch: AbortHandle,
}

struct Tasks {
    /// The writers of customers' operations. While one writer waits for its commit, the other gathers operations. More
    /// than two writers are not faster.
    writers: [WorkQueue<Session<'static>>; 2],
    /// The writer of platform events, key rotations, fetches with an `Idempotency-Key`, and imported sales with an
    /// alias. Each of its batches is written completely or not at all.
    receiver: WorkQueue<Session<'static>>,
    maintenance: WorkQueue<Session<'static>>,
    finder: BatchQueue<KeyId, Option<Key>>,
}

impl PostgresStore {
    /// Connects to the schema `delivery` of the database at `url`, `postgres://user:password@host:5432/database`,
    /// creating and migrating the schema as needed.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] names the cause, in a sentence for the operator.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        Self::options().connect(url).await
    }

    /// Connects with the driver's own options, for example to use certificates, a socket, or a password that is not
    /// part of an address.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(options: PgConnectOptions) -> Result<Self, PostgresError> {
        Self::options().connect_with(options).await
    }

    /// Uses the host application's pool. [`PostgresOptions`] describes what that costs, and how to connect through a
    /// pooler such as PgBouncer.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn with_pool(pool: PgPool) -> Result<Self, PostgresError> {
        Self::options().with_pool(pool).await
    }

    /// Returns options for other ways to connect: another schema, other driver options, the host application's pool, or
    /// a schema that the deployment migrates.
    #[must_use]
    pub fn options() -> PostgresOptions {
        PostgresOptions::new()
    }

    /// Uses these options for new connections, for example after a password or the host has changed. Connections that
    /// are already open are kept. Has no effect on the host application's pool, because the application itself sets the
    /// options of its pool.
    pub fn set_connect_options(&self, options: PgConnectOptions) {
        self.sessions.set_options(options);
    }

    fn start(sessions: Sessions) -> Self {
        let (first, first_end) = BatchQueue::start(Writer::new(sessions.clone()));
        let (second, second_end) = BatchQueue::start(Writer::new(sessions.clone()));
        let (receiver, receiver_end) = BatchQueue::start(Writer::new(sessions.clone()));
        let (maintenance, maintenance_end) = BatchQueue::start(Writer::new(sessions.clone()));
        let (finder, finder_end) = BatchQueue::start(Finder::new(sessions.clone()));
        let products = Arc::<ProductCache>::default();
        let watch = tokio::spawn(watch::watch(sessions.clone(), products.clone())).abort_handle();
        let writers = [WorkQueue::new(first), WorkQueue::new(second)];
        let (receiver, maintenance) = (WorkQueue::new(receiver), WorkQueue::new(maintenance));
        let tasks = Tasks { writers, receiver, maintenance, finder };
        Self {
            tasks: Mutex::new(Some(tasks)),
            ended: Mutex::new(vec![first_end, second_end, receiver_end, maintenance_end, finder_end]),
            sessions,
            products,
            posts: Arc::default(),
            watch,
        }
    }

    fn task<T: Clone>(&self, pick: impl FnOnce(&Tasks) -> &T) -> Result<T, StoreError> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.as_ref().map(|tasks| pick(tasks).clone()).ok_or(StoreError::unavailable("closed"))
    }

    /// Returns the writer for a key. A key always has the same writer, so that several changes to the key can share a
    /// batch and do not wait for each other's row lock.
    fn writer(&self, id: KeyId) -> Result<WorkQueue<Session<'static>>, StoreError> {
        self.task(|Tasks { writers: [first, second], .. }| if id.as_u128().is_multiple_of(2) { first } else { second })
    }

    /// Returns the writer for work that no customer waits for.
    fn maintenance(&self) -> Result<WorkQueue<Session<'static>>, StoreError> {
        self.task(|tasks| &tasks.maintenance)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Runs `work` in its own task, so that `work` continues even if the caller stops waiting. Ends `work` after
/// [`connect::BATCH`], whether the caller still waits or not.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    detached_for(connect::BATCH, work).await
}

/// Runs `work` in its own task, so that `work` continues even if the caller stops waiting. Ends `work` after `limit`,
/// whether the caller still waits or not.
async fn detached_for<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(tokio::time::timeout(limit, work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(StoreError::unavailable("the database does not answer")),
        Err(_) => Err(StoreError::unavailable("the runtime is shutting down")),
    }
}

#[async_trait]
impl Ledger for PostgresStore {
    async fn submit(&self, operation: Operation) -> Result<Answer, StoreError> {
        // A batch with even one operation that needs a transaction is written completely or not at all. So these
        // operations go to a writer of their own, and their conflicts do not undo other operations.
        let queue = match operation.subject() {
            Subject::NewKey(new) if !operation.needs_transaction() => self.writer(new.id),
            Subject::Key(id) if !operation.needs_transaction() => self.writer(id),
            Subject::NewKey(_) | Subject::Key(_) | Subject::Event(_) => self.task(|tasks| &tasks.receiver),
            Subject::Message(_) => self.maintenance(),
        };
        queue?.submit(operation).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.task(|tasks| &tasks.finder)?.submit(id).await
    }
}

#[async_trait]
impl Backend for PostgresStore {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        keyring::register(self, keyring).await
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        read::search(self.sessions.clone(), query.clone()).await
    }

    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        self.maintenance()?.run(move |session| Box::pin(messages::claim(session, now, lease_until, limit))).await
    }

    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        let leases = leases.to_vec();
        let queue = self.maintenance()?;
        let renew =
            queue.run(move |session| Box::pin(async move { messages::renew(session, &leases, lease_until).await }));
        renew.await
    }

    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        messages::failed(self.sessions.clone(), limit).await
    }

    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError> {
        retry(self, message, edit).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        retry_all(self, route, now).await
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        history::history(self, id, before, limit).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        history::prune(self, before, i64::MAX).await
    }

    fn office(&self) -> Option<&dyn Office> {
        Some(self)
    }

    fn host_transactions(&self) -> Option<&dyn HostTransactions> {
        Some(self)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.task(|_| &())?;
        read::ping(self.sessions.clone()).await
    }

    async fn close(&self) {
        self.watch.abort();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ended {
            // An error means that the task has ended already.
            let _ = end.await;
        }
        self.sessions.close().await;
        // A closed store must not return products from its cache.
        self.products.clear();
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
