//! Many servers, one store: keys, orders, letters, products and posts in a schema of a PostgreSQL database.
//!
//! ```text
//! change, issue    ──► committers ──► one transaction a batch, rows locked in one order ──► answers
//!                      (uses alone: one statement that writes those of keys that still are what they were)
//! letters, prune, … ──► a committer of their own, so that no customer waits for them
//! find             ──► finder     ──► one question for all keys that are asked for meanwhile
//! search, lists    ──► a few pooled sessions
//! ```
//!
//! Nothing is believed that the database does not confirm: another server may have changed it. Changes to one key wait for
//! its row; an order is one key by a unique index; letters are leased with `SKIP LOCKED`, so that servers share the sending.

mod admission;
#[cfg(feature = "sqlite")]
mod arrival;
mod catalog;
mod connect;
mod count;
mod error;
mod held;
mod letters;
mod plan;
mod read;
mod remembered;
mod ring;
mod write;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use tokio::sync::oneshot;

#[cfg(feature = "sqlite")]
pub(super) use self::arrival::Arrival;
use self::connect::Sessions;
pub use self::error::PostgresError;
use self::read::Finder;
use self::write::Scribe;
use super::commit::Committer;
use super::lists::PostLists;
use super::operation::{Answer, Operation};
use super::shelf::Shelf;
use super::{
    Catalog, Issue, KeyQuery, Ledger, Letter, LetterId, MessageId, Outcome, Page, ParkedLetter, PostQuery, Receipt,
    Route, StoreError, Use, UseId,
};
use crate::key::{Change, Fingerprint, Key, KeyId, NewKey, Refusal};
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};

/// Committers of a server for its customers. While one waits for its commit, the other gathers; more do not pay.
const LANES: usize = 2;
/// The schema, unless the host names one.
pub(super) const SCHEMA: &str = "delivery";

/// Keys, orders, letters, products and posts in PostgreSQL 14 or newer, shared by any number of servers.
///
/// While the database is away, every method fails with [`StoreError::Unavailable`] within seconds, and works again as soon
/// as it is back. A server opens at most eight sessions.
pub struct PostgresStore {
    tasks: Mutex<Option<Tasks>>,
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
    pool: PgPool,
    shelf: Shelf,
    lists: Arc<PostLists>,
}

struct Tasks {
    lanes: [Committer<Operation, Answer>; LANES],
    upkeep: Committer<Operation, Answer>,
    finder: Committer<KeyId, Option<Key>>,
}

impl PostgresStore {
    /// Connects to the schema `delivery` of the database at `url`, `postgres://user:password@host:5432/database`, making
    /// and migrating the schema as needed.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] says which of the many ways to fail it was, in a sentence for the operator.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        Self::connect_to_schema(url, SCHEMA).await
    }

    /// Connects to another schema: two services in one database, or tests.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_to_schema(url: &str, schema: &str) -> Result<Self, PostgresError> {
        let mut sessions = Sessions::new(url, schema)?;
        let pool = sessions.open(schema).await?;
        let (first, first_end) = Committer::start(Scribe::new(sessions.clone()));
        let (second, second_end) = Committer::start(Scribe::new(sessions.clone()));
        let (upkeep, upkeep_end) = Committer::start(Scribe::new(sessions.clone()));
        let (finder, finder_end) = Committer::start(Finder::new(sessions));
        Ok(Self {
            tasks: Mutex::new(Some(Tasks { lanes: [first, second], upkeep, finder })),
            ended: Mutex::new(vec![first_end, second_end, upkeep_end, finder_end]),
            pool,
            shelf: Shelf::default(),
            lists: Arc::default(),
        })
    }

    fn task<T: Clone>(&self, pick: impl FnOnce(&Tasks) -> &T) -> Result<T, StoreError> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.as_ref().map(|tasks| pick(tasks).clone()).ok_or(StoreError::unavailable("closed"))
    }

    /// The committer for one key, always the same: changes to it then meet in one batch rather than at its row.
    fn lane(&self, id: KeyId) -> Result<Committer<Operation, Answer>, StoreError> {
        self.task(|Tasks { lanes: [first, second], .. }| if id.as_u128().is_multiple_of(2) { first } else { second })
    }

    /// The committer for what no customer waits for.
    fn upkeep(&self) -> Result<Committer<Operation, Answer>, StoreError> {
        self.task(|tasks| &tasks.upkeep)
    }
}

/// Runs `work` to its end, whether or not its caller waits for it.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let mut task = tokio::spawn(work);
    let ended = tokio::time::timeout(connect::BATCH, &mut task).await;
    if ended.is_err() {
        task.abort();
    }
    match ended {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(StoreError::unavailable("the runtime is shutting down")),
        Err(_) => Err(StoreError::unavailable("the database does not answer")),
    }
}

#[async_trait]
impl Ledger for PostgresStore {
    async fn enroll(&self, ring: &[Fingerprint]) -> Result<(), StoreError> {
        self.upkeep()?.enroll(ring).await
    }

    async fn issue(&self, key: NewKey, letter: Option<MessageId>) -> Result<Issue, StoreError> {
        self.lane(key.id)?.issue(key, letter).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.task(|tasks| &tasks.finder)?.submit(id).await
    }

    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refusal>>, StoreError> {
        self.lane(id)?.change(id, change).await
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        read::search(self.pool.clone(), query.clone()).await
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        read::history(self.pool.clone(), id, before, limit).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.upkeep()?.prune(before).await
    }

    async fn claim_letters(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        self.upkeep()?.claim(now, lease_until, limit).await
    }

    async fn renew_letters(&self, receipts: &[Receipt], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        self.upkeep()?.renew(receipts, lease_until).await
    }

    async fn settle_letter(&self, receipt: Receipt, outcome: Outcome) -> Result<(), StoreError> {
        self.upkeep()?.settle(receipt, outcome).await
    }

    async fn parked_letters(&self, limit: usize) -> Result<Vec<ParkedLetter>, StoreError> {
        read::parked_letters(self.pool.clone(), limit).await
    }

    async fn unpark_letter(&self, letter: LetterId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.upkeep()?.unpark(letter, now).await
    }

    async fn unpark_letters(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.upkeep()?.unpark_all(route, now).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.task(|_| &())?;
        read::ping(self.pool.clone()).await
    }

    async fn close(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ended {
            // An error means that the task has ended already.
            let _ = end.await;
        }
        // A session into a network that vanished would be waited for.
        let _ = tokio::time::timeout(connect::BATCH, self.pool.close()).await;
    }
}

#[async_trait]
impl Catalog for PostgresStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        catalog::product(self.pool.clone(), &self.shelf, id).await
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        catalog::products(self.pool.clone()).await
    }

    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.upkeep()?.add_product(product).await
    }

    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        catalog::posts(self.pool.clone(), self.lists.clone(), query.clone()).await
    }

    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.upkeep()?.add_post(post).await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
