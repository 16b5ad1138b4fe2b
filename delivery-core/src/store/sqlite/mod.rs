//! The embedded default: one file, one process, every count on disk before it is answered.
//!
//! ```text
//! find ──► view (exact, in memory) ──► finders, one question for all keys that are asked for meanwhile
//! change, issue, … ──► committer ──► writer connection ──► disk ──► view ──► answer
//! search, lists ──► a few pooled connections
//! ```
//!
//! One task writes ([`commit`](super::commit)); readers run beside it. [`view`] holds the keys in use exactly as the
//! last commit left them. A counted use is a row appended to `delivery_use`; [`fold`] adds the counts to those of the
//! keys later, many at a time, and [`unfolded`] knows which it has yet to add. [`checkpoint`] copies what was committed from the
//! write-ahead log into the file, beside the writer.

mod append;
mod catalog;
mod checkpoint;
#[cfg(feature = "postgres")]
mod departure;
mod error;
mod find;
mod fold;
mod letters;
mod lock;
mod open;
mod plan;
mod read;
mod ring;
mod rows;
mod unfolded;
mod view;
mod write;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::SqlitePool;
use tokio::sync::oneshot;

#[cfg(feature = "postgres")]
pub(super) use self::departure::Departure;
pub use self::error::SqliteError;
use self::find::Finders;
use self::lock::Lock;
use self::view::{Entry, View};
use super::commit::{Committer, STALLED};
use super::operation::{Answer, Operation};
use super::steady::Steady;
use super::{
    Catalog, Issue, KeyQuery, Ledger, Letter, LetterId, MessageId, Outcome, Page, ParkedLetter, PostQuery, Receipt,
    Route, StoreError, Use, UseId,
};
use crate::key::{Change, Fingerprint, Key, KeyId, NewKey, Refusal};
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};

/// Keys, orders, letters, products and posts in one SQLite file that this process owns.
///
/// Durable through a crash of process or machine: WAL with `synchronous=FULL`, set and read back at the start. A
/// second process, or a second store in this one, is refused by a lock on the file, whatever name it is opened under;
/// several servers share a PostgreSQL database instead. On Unix a new file is readable by its owner alone.
///
/// Call [`close`](Ledger::close) at shutdown, or drop the last handle inside the runtime; what was acknowledged is safe
/// either way.
///
/// The SQLite that is built in syncs with `fsync`. On Linux `LIBSQLITE3_FLAGS=-DHAVE_FDATASYNC=1` in the environment of the
/// build makes that `fdatasync`, which is as durable and does not write the file's times with each commit; this project's
/// servers are built so, by `.cargo/config.toml`.
pub struct SqliteStore {
    tasks: Mutex<Option<Tasks>>,
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
    readers: SqlitePool,
    view: Arc<View>,
    steady: Steady,
    /// Held by the writer too: nobody else opens the file before both are done with it.
    lock: Mutex<Option<Arc<Lock>>>,
}

struct Tasks {
    committer: Committer<Operation, Answer>,
    finders: Finders,
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

    fn committer(&self) -> Result<Committer<Operation, Answer>, StoreError> {
        self.task(|tasks| &tasks.committer)
    }

    fn task<T: Clone>(&self, pick: impl FnOnce(&Tasks) -> &T) -> Result<T, StoreError> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.as_ref().map(|tasks| pick(tasks).clone()).ok_or(StoreError::unavailable("closed"))
    }

    async fn entry(&self, id: KeyId) -> Result<Option<Entry>, StoreError> {
        // What is in view needs nobody to find it.
        match self.view.keys.get(&id) {
            Some(entry) => Ok(Some(entry)),
            None => self.task(|tasks| &tasks.finders)?.find(&self.view, id).await,
        }
    }
}

/// A reader on a disk that hangs is left: it ends by itself when the disk answers.
async fn timely<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let read = tokio::time::timeout(STALLED, read).await;
    read.unwrap_or_else(|_| Err(StoreError::unavailable("the disk does not answer")))
}

#[async_trait]
impl Ledger for SqliteStore {
    async fn enroll(&self, ring: &[Fingerprint]) -> Result<(), StoreError> {
        self.committer()?.enroll(ring).await
    }

    async fn issue(&self, key: NewKey, letter: Option<MessageId>) -> Result<Issue, StoreError> {
        self.committer()?.issue(key, letter).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        Ok(self.entry(id).await?.map(|entry| entry.key))
    }

    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refusal>>, StoreError> {
        self.committer()?.change(id, change).await
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        timely(read::search(&self.readers, &self.view, query)).await
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let newest = match before {
            None => self.entry(id).await?.and_then(|entry| entry.last_use),
            Some(before) => timely(read::previous_use(&self.readers, id, before)).await?,
        };
        timely(read::history(&self.readers, newest, limit)).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.committer()?.prune(before).await
    }

    async fn claim_letters(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let (now, lease_until) = (self.steady.corrected(now), self.steady.corrected(lease_until));
        // A worker asks every second; a read tells without a commit that nothing is due.
        if !timely(read::letters_due(&self.readers, now)).await? {
            return Ok(Vec::new());
        }
        self.committer()?.claim(now, lease_until, limit).await
    }

    async fn renew_letters(&self, receipts: &[Receipt], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        self.committer()?.renew(receipts, self.steady.corrected(lease_until)).await
    }

    async fn settle_letter(&self, receipt: Receipt, outcome: Outcome) -> Result<(), StoreError> {
        let outcome = match outcome {
            Outcome::Retry { due, reason, route } => Outcome::Retry { due: self.steady.corrected(due), reason, route },
            Outcome::Postpone { due, reason } => Outcome::Postpone { due: self.steady.corrected(due), reason },
            outcome => outcome,
        };
        self.committer()?.settle(receipt, outcome).await
    }

    async fn parked_letters(&self, limit: usize) -> Result<Vec<ParkedLetter>, StoreError> {
        timely(read::parked_letters(&self.readers, &self.view, limit)).await
    }

    async fn unpark_letter(&self, letter: LetterId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.committer()?.unpark(letter, now).await
    }

    async fn unpark_letters(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.committer()?.unpark_all(route, now).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.committer()?.ping().await?;
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
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[async_trait]
impl Catalog for SqliteStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        timely(catalog::product(&self.readers, &self.view, id)).await
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        timely(catalog::products(&self.readers, &self.view)).await
    }

    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.committer()?.add_product(product).await
    }

    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        timely(catalog::posts(&self.readers, &self.view.lists, query)).await
    }

    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.committer()?.add_post(post).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("view", &self.view).finish_non_exhaustive()
    }
}
