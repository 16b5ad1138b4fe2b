//! The embedded store: a SQLite file that a single process owns. Every counted use is on disk before its caller gets an
//! answer.
//!
//! ```text
//! find             ──► key cache ──► loaders: one query for all keys that were requested during the last query
//! change, issue, … ──► work queue ──► writer: load, plan, persist in one statement ──► key cache ──► answer
//! search, lists    ──► a few pooled connections
//! ```
//!
//! One task writes, and other tasks read at the same time. The [`cache`] contains recently used keys, exactly as the
//! last commit left them. Each counted use appends one row to `delivery_use`, which contains the key's new count. The
//! new counts are also kept in memory, as [`pending`] counts. Later, [`flush`] writes the pending counts to
//! `delivery_count`, many at a time. [`checkpoint`] copies committed pages from the write-ahead log into the file while
//! the writer continues to commit.

mod alias;
mod append;
mod backup;
mod cache;
mod checkpoint;
mod cold;
mod dump;
mod error;
mod flush;
mod handler;
mod host;
mod inbox;
mod inspect;
mod json;
mod load;
mod lock;
mod lost;
mod messages;
mod open;
mod path;
mod pending;
mod persist;
mod read;
mod request;
mod transaction;
mod wipe;
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
use self::load::Loaders;
use self::lock::Lock;
use self::lost::Asks;
#[cfg(test)]
pub(in crate::store) use self::open::migrate;
pub use self::transaction::SqliteTransaction;
use self::writer::Writer;
use super::batch::STALLED;
use super::clock::SteadyClock;
use super::sql::messages::{retry, retry_all};
use super::sql::{WorkQueue, history, keyring};
use super::{Backend, HostTransactions, KeyQuery, Ledger, Office, Page, StoreError, Use, UseId};
use crate::key::{Fingerprint, Key, KeyId};
use crate::ledger::plan::Row;
use crate::ledger::{Answer, Edit, FailedMessage, Lease, LeasedMessage, MessageNumber, Operation, Outcome, Route};

/// A store of keys, orders, messages, products and posts in one SQLite file that this process owns.
///
/// Commits survive a crash of the process or the machine: when the store opens the file, it sets the journal mode WAL
/// with `synchronous=FULL`, and checks that SQLite has accepted both. On Unix a new file is readable by its owner
/// alone.
///
/// The file is locked while it is open. A second process, or a second store in the same process, cannot open it,
/// whatever name it uses for the file. If several servers need the same store, use a PostgreSQL database instead.
///
/// At shutdown, call [`close`](Backend::close), or drop the last handle inside the runtime. Acknowledged operations are
/// safe either way.
///
/// The bundled SQLite syncs with `fsync`. On Linux, setting `LIBSQLITE3_FLAGS=-DHAVE_FDATASYNC=1` in the build
/// environment makes it use `fdatasync`, which is as durable and does not write the file's timestamps with each commit.
/// `.cargo/config.toml` sets it for this project's servers.
pub struct SqliteStore {
    tasks: Mutex<Option<Tasks>>,
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
    readers: SqlitePool,
    cache: Arc<Cache>,
    clock: SteadyClock,
    /// A handle to the lock on the file. The writer and its checkpoints have further handles. Nobody else can open the
    /// file before all handles are dropped.
    lock: Mutex<Option<Arc<Lock>>>,
}

struct Tasks {
    writer: WorkQueue<Writer>,
    asks: Asks,
    loaders: Loaders,
}

impl SqliteStore {
    /// Opens the database file at `path`, creating and migrating it as needed. The directory must exist.
    ///
    /// # Errors
    ///
    /// [`SqliteError`] if the store cannot be opened. The message is written for the operator.
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
        match self.cache.keys.get(&id) {
            Some(row) => Ok(Some(row)),
            None => self.task(|tasks| &tasks.loaders)?.load(&self.cache, id).await,
        }
    }
}

/// Runs `read`, but stops waiting for its result after [`STALLED`], because the disk may hang. A query that was already
/// sent to SQLite's thread ends only when the disk answers.
async fn timely<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timely_for(STALLED, read).await
}

/// Runs `read`, but stops waiting for its result after `limit`.
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
        keyring::register(self, keyring).await
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
        // A worker calls this every second, and usually no message is due. This read finds that out without the writer,
        // so that other operations need not wait for the claim.
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
        retry(self, message, edit).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        retry_all(self, route, now).await
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        history::history(self, id, before, limit).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let writer = self.writer()?;
        let until = writer.run(move |writer| Box::pin(flush::prunable(writer, before))).await?;
        while !writer.run(move |writer| Box::pin(flush::drain(writer, until))).await? {}
        history::prune(self, before, until).await
    }

    fn office(&self) -> Option<&dyn Office> {
        Some(self)
    }

    fn host_transactions(&self) -> Option<&dyn HostTransactions> {
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
        // A closed store must return an error, so its caches must not answer either.
        self.cache.keys.clear();
        self.cache.products.clear();
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("cache", &self.cache).finish_non_exhaustive()
    }
}
