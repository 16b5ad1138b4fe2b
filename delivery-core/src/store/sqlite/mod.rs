//! The embedded store: one file, one process, every count on disk before it is answered.
//!
//! ```text
//! find             ──► key cache ──► loaders: one query for all keys that are asked for meanwhile
//! change, issue, … ──► work queue ──► writer: load, plan, persist in one statement ──► key cache ──► answer
//! search, lists    ──► a few pooled connections
//! ```
//!
//! One task writes; readers run beside it. The [`cache`] holds the keys in use exactly as the last commit left them. A
//! counted use is a row appended to `delivery_use`, with the count after it; [`flush`] writes the [`pending`] counts to
//! `delivery_count` later, many at a time. [`checkpoint`] copies what was committed from the write-ahead log into the file,
//! beside the writer.

mod append;
mod backup;
mod cache;
mod catalog;
mod checkpoint;
mod error;
mod flush;
mod handler;
mod history;
mod host;
mod inbox;
mod inspect;
mod json;
mod keyring;
mod load;
mod lock;
mod lost;
mod messages;
mod open;
mod pending;
mod persist;
mod read;
mod records;
mod request;
mod sign_ins;
#[cfg(feature = "postgres")]
mod transfer;
mod writer;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::SqlitePool;
use tokio::sync::oneshot;

pub use self::backup::Backup;
use self::cache::Cache;
pub use self::error::SqliteError;
pub use self::host::SqliteTransaction;
use self::load::Loaders;
use self::lock::Lock;
use self::lost::Asks;
#[cfg(all(test, feature = "postgres"))]
pub(in crate::store) use self::open::migrate;
#[cfg(feature = "postgres")]
pub(super) use self::transfer::TransferSource;
use self::writer::Writer;
use super::batch::STALLED;
use super::clock::SteadyClock;
use super::sql::WorkQueue;
use super::{
    Answer, Backend, Catalog, CatalogEditor, Edit, FailedMessage, History, Inbox, KeyQuery, Lease, LeasedMessage,
    Ledger, LostKeys, MessageNumber, Operation, Outcome, Page, PostQuery, Posts, ProductNames, Records, Requests,
    Route, SignIns, StoreError, Use, UseId,
};
use crate::HostRef;
use crate::key::{Acceptance, Fingerprint, Key, KeyId};
use crate::ledger::plan::Row;
use crate::order::Source;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId, RefName};

/// Keys, orders, messages, products and posts in one SQLite file that this process owns.
///
/// Durable through a crash of process or machine: WAL with `synchronous=FULL`, set and read back at the start. A
/// second process, or a second store in this one, is refused by a lock on the file, whatever name it is opened under;
/// several servers share a PostgreSQL database instead. On Unix a new file is readable by its owner alone.
///
/// Call [`close`](Backend::close) at shutdown, or drop the last handle inside the runtime; what was acknowledged is safe
/// either way.
///
/// The SQLite that is built in syncs with `fsync`. On Linux `LIBSQLITE3_FLAGS=-DHAVE_FDATASYNC=1` in the environment of the
/// build makes that `fdatasync`, which is as durable and does not write the file's times with each commit; this project's
/// servers are built so, by `.cargo/config.toml`.
pub struct SqliteStore {
    tasks: Mutex<Option<Tasks>>,
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
    readers: SqlitePool,
    cache: Arc<Cache>,
    clock: SteadyClock,
    /// Held by the writer too: nobody else opens the file before both are done with it.
    lock: Mutex<Option<Arc<Lock>>>,
}

struct Tasks {
    writer: WorkQueue<Writer>,
    asks: Asks,
    loaders: Loaders,
}

impl SqliteStore {
    /// Opens the database file at `path`, making and migrating it as needed. The directory must exist.
    ///
    /// # Errors
    ///
    /// [`SqliteError`] says which of the many ways to fail it was, in a sentence for the operator.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        open::open(path.as_ref()).await
    }

    fn writer(&self) -> Result<WorkQueue<Writer>, StoreError> {
        self.task(|tasks| &tasks.writer)
    }

    fn task<T: Clone>(&self, pick: impl FnOnce(&Tasks) -> &T) -> Result<T, StoreError> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.as_ref().map(|tasks| pick(tasks).clone()).ok_or(StoreError::unavailable("closed"))
    }

    async fn row(&self, id: KeyId) -> Result<Option<Row>, StoreError> {
        // Cache hit: no query.
        match self.cache.keys.get(&id) {
            Some(row) => Ok(Some(row)),
            None => self.task(|tasks| &tasks.loaders)?.load(&self.cache, id).await,
        }
    }
}

/// Gives up on a read from a disk that hangs: the read ends by itself when the disk answers.
async fn timely<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timely_for(STALLED, read).await
}

/// The same, after this long.
async fn timely_for<T>(limit: Duration, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let read = tokio::time::timeout(limit, read).await;
    read.unwrap_or_else(|_| Err(StoreError::unavailable("the disk does not answer")))
}

#[async_trait]
impl Ledger for SqliteStore {
    async fn submit(&self, mut operation: Operation) -> Result<Answer, StoreError> {
        if let Operation::Complete(complete) = &mut operation
            && let Outcome::Retry { due, .. } | Outcome::Postpone { due, .. } = &mut complete.outcome
        {
            *due = self.clock.corrected(*due);
        }
        self.writer()?.submit(operation).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        Ok(self.row(id).await?.map(|row| row.key))
    }
}

#[async_trait]
impl Backend for SqliteStore {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        let keyring = keyring.to_vec();
        let writer = self.writer()?;
        let registered = writer
            .run(move |writer| Box::pin(async move { keyring::register(&mut writer.connection, &keyring).await }));
        match registered.await? {
            Acceptance::Accepted => Ok(()),
            Acceptance::Retired => Err(StoreError::RetiredSecret),
            Acceptance::Foreign => Err(StoreError::ForeignSecret),
        }
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        timely(read::search(&self.readers, &self.cache, query)).await
    }

    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let times @ (now, _) = (self.clock.corrected(now), self.clock.corrected(lease_until));
        // A worker asks every second; a read tells without a commit that nothing is due.
        if !timely(messages::are_due(&self.readers, now)).await? {
            return Ok(Vec::new());
        }
        self.writer()?.run(move |writer| Box::pin(async move { messages::claim(writer, times, limit).await })).await
    }

    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        let (leases, until) = (leases.to_vec(), self.clock.corrected(lease_until));
        self.writer()?.run(move |writer| Box::pin(async move { messages::renew(writer, &leases, until).await })).await
    }

    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        timely(messages::failed(&self.readers, &self.cache, limit)).await
    }

    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError> {
        self.writer()?.run(move |writer| Box::pin(async move { messages::retry(writer, message, &edit).await })).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.writer()?.run(move |writer| Box::pin(async move { messages::retry_all(writer, route, now).await })).await
    }

    fn uses(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn inbox(&self) -> Option<&dyn Inbox> {
        Some(self)
    }

    fn requests(&self) -> Option<&dyn Requests> {
        Some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn sign_ins(&self) -> Option<&dyn SignIns> {
        Some(self)
    }

    fn lost_keys(&self) -> Option<&dyn LostKeys> {
        Some(self)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.writer()?.run(|_| Box::pin(async { Ok(()) })).await?;
        timely(read::ping(&self.readers)).await
    }

    async fn close(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ended {
            // An error means that the task has ended already.
            let _ = end.await;
        }
        self.readers.close().await;
        // A closed store answers nothing, not even what it has at hand.
        self.cache.keys.clear();
        self.cache.products.clear();
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[async_trait]
impl History for SqliteStore {
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let newest = match before {
            None => self.row(id).await?.and_then(|row| row.last_use),
            Some(before) => timely(history::previous_use(&self.readers, id, before)).await?,
        };
        timely(history::history(&self.readers, newest, limit)).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.writer()?.part_by_part(move |writer, from| Box::pin(history::prune(writer, before, from))).await
    }
}

#[async_trait]
impl Catalog for SqliteStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        timely(catalog::product(&self.readers, &self.cache, id)).await
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        timely(catalog::products(&self.readers, &self.cache)).await
    }
}

#[async_trait]
impl CatalogEditor for SqliteStore {
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        self.writer()?
            .run(move |writer| Box::pin(async move { catalog::add_product(writer, &product, &edit).await }))
            .await
    }

    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        timely(catalog::product_called(&self.readers, host_ref)).await
    }

    async fn update_product(
        &self,
        id: ProductId,
        product: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        let was = was.cloned();
        let update =
            async move |writer: &mut Writer| catalog::update_product(writer, id, (&product, was.as_ref()), &edit).await;
        self.writer()?.run(move |writer| Box::pin(async move { update(writer).await })).await
    }

    async fn archive_product(&self, id: ProductId, edit: Edit) -> Result<Option<Arc<Product>>, StoreError> {
        self.writer()?
            .run(move |writer| Box::pin(async move { catalog::archive_product(writer, id, &edit).await }))
            .await
    }
}

#[async_trait]
impl ProductNames for SqliteStore {
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError> {
        timely(catalog::product_named(&self.readers, &self.cache, source, name)).await
    }
}

#[async_trait]
impl Posts for SqliteStore {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        timely(catalog::posts(&self.readers, &self.cache, query)).await
    }

    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        self.writer()?.run(move |writer| Box::pin(async move { catalog::add_post(writer, &post, &edit).await })).await
    }

    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        timely(catalog::post(&self.readers, id)).await
    }

    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError> {
        let was = was.cloned();
        let update =
            async move |writer: &mut Writer| catalog::update_post(writer, id, (&post, was.as_ref()), &edit).await;
        self.writer()?.run(move |writer| Box::pin(async move { update(writer).await })).await
    }

    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError> {
        self.writer()?.run(move |writer| Box::pin(async move { catalog::delete_post(writer, id, &edit).await })).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("cache", &self.cache).finish_non_exhaustive()
    }
}
