//! Transactions of the host application, on the connection that writes.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::error::store_error;
use super::persist::persist;
use super::transaction::SqliteTransaction;
use super::writer::{Writer, has_ended, rolled_back};
use super::{SqliteStore, alias, cold, flush, load};
use crate::key::{Key, KeyId};
use crate::ledger::operation::{needs, plan};
use crate::ledger::plan::{Loaded, Numbers, Writes};
use crate::ledger::{Answer, ChangeKey, Edit, Issue, NewSale, Operation, Refused};
use crate::product::{NewProduct, Product};
use crate::store::batch::BatchHandler;
use crate::store::host::elsewhere;
use crate::store::sql::catalog;
use crate::store::sql::session::Stale;
use crate::store::{HostTransaction, HostTransactions, StoreError};

/// How long a transaction of the host application may take. All other writes wait for the transaction, and would be
/// refused after five seconds.
const LONGEST: Duration = Duration::from_secs(4);

impl SqliteStore {
    /// Runs `work` in a transaction on the connection that writes. If `work` returns `Ok`, the transaction is
    /// committed: the changes of `work` to the host application's tables in the same file, and the changes of the
    /// service. Otherwise everything is rolled back. The host application also creates its tables in such a
    /// transaction. Names that begin with `delivery_` or `_delivery_` are reserved for the store.
    ///
    /// Nothing else is written while `work` runs, so it should execute its statements and return. After four seconds
    /// its transaction is rolled back.
    ///
    /// Of the service's methods, `work` may call only those that take the transaction, such as
    /// [`issue_in`](crate::Delivery::issue_in). Any other method may block until `work` has ended. [Prepare the
    /// sale](crate::Delivery::prepare) before the transaction. `work` must not end the transaction. A transaction that
    /// `work` [begins](sqlx::Connection::begin) inside this one is a savepoint.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     delivery: delivery_core::Delivery,
    /// #     store: delivery_core::store::SqliteStore,
    /// #     order: delivery_core::order::Order,
    /// # ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let sale = delivery.prepare(order).await?;
    /// let issued = store.transaction(move |mut transaction| Box::pin(async move {
    ///     sqlx::query("INSERT INTO shop_order …").execute(&mut *transaction).await?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(delivery.issue_in(&mut transaction, &sale).await?)
    /// }));
    /// let issued = issued.await?.committed();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error that `work` returns, or a [`StoreError`] if the transaction could not begin, took longer than four
    /// seconds, or could not be committed. If an error is returned, nothing was written, except possibly after
    /// [`StoreError::Unknown`].
    ///
    /// # Panics
    ///
    /// If `work` panics. Its transaction is rolled back, and the store can still be used.
    pub async fn transaction<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: for<'t> FnOnce(SqliteTransaction<'t>) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
    {
        let writer = self.writer()?;
        match writer.run(move |writer| Box::pin(run(writer, work))).await? {
            Ok(done) => done,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// The number of row numbers that are reserved for a transaction. A transaction cannot use that many numbers within its
/// time limit.
const MOST_NUMBERS: i64 = 10_000_000;

/// The result of the host application's work, or the payload of its panic.
type Ended<T, E> = Result<Result<T, E>, Box<dyn std::any::Any + Send>>;

async fn run<T, E, F>(writer: &mut Writer, work: F) -> Result<Ended<T, E>, StoreError>
where
    F: for<'t> FnOnce(SqliteTransaction<'t>) -> BoxFuture<'t, Result<T, E>>,
{
    let ended = transact(writer, work).await;
    if ended.is_err() {
        writer.is_lost |= !rolled_back(&mut writer.connection).await;
    }
    // SQLite ends a transaction by itself in some cases, for example when the disk is full. The driver does not notice
    // this, and cannot begin a new transaction on this connection. So the next batch opens another connection.
    writer.is_lost |= writer.connection.is_in_transaction();
    if writer.is_lost {
        // The outcome of the transaction is unknown, so the caches of keys and products are emptied.
        writer.restart();
    }
    ended
}

async fn transact<T, E, F>(writer: &mut Writer, work: F) -> Result<Ended<T, E>, StoreError>
where
    F: for<'t> FnOnce(SqliteTransaction<'t>) -> BoxFuture<'t, Result<T, E>>,
{
    writer.reserve(MOST_NUMBERS).await?;
    let Writer { connection, cache, newest, .. } = &mut *writer;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)?;
    let (mut numbers, mut stale, mut uses) = (*newest, Vec::new(), 0);
    let (newest, counted) = (&mut numbers, &mut uses);
    let lent = SqliteTransaction { connection: &mut transaction, cache, newest, stale: &mut stale, uses: counted };
    let working = AssertUnwindSafe(async { work(lent).await }).catch_unwind();
    let Ok(worked) = timeout(LONGEST, working).await else {
        return Err(StoreError::unavailable("a transaction of the host's took longer than four seconds"));
    };
    if !matches!(worked, Ok(Ok(_))) {
        let is_over = transaction.rollback().await.map_or_else(|error| has_ended(&error), |()| true);
        writer.is_lost |= !is_over;
        return Ok(worked);
    }
    if let Err(error) = transaction.commit().await {
        // If the host application has ended the transaction itself, its outcome is unknown. The next batch then opens
        // another connection, and reads the rows again.
        writer.is_lost = has_ended(&error) || !rolled_back(&mut writer.connection).await;
        let error = store_error(error);
        return Err(if writer.is_lost { StoreError::unknown(error) } else { error });
    }
    writer.newest = numbers;
    // The counts of these uses are flushed already. The uses nevertheless count towards the threshold of the next pass,
    // because a start reads all use records since the last pass, and a pass limits the number of these records.
    writer.pass.pace(uses);
    // The rows are read again, because the host application may have undone some changes by rolling back to a
    // savepoint.
    writer.refresh(stale).await;
    Ok(worked)
}

impl SqliteTransaction<'_> {
    /// Plans and persists an operation.
    async fn operate(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let Self { connection, cache, newest, .. } = self;
        let needs = needs([operation]);
        let mut loaded = Loaded::absent(&needs);
        // Reads the rows from the database, because the cache does not contain the changes of this transaction.
        let ids: Vec<KeyId> = needs.keys.iter().chain(&needs.new).copied().collect();
        for row in load::keys(connection, cache, &ids).await? {
            loaded.insert(row);
        }
        for row in load::purchases(connection, cache, &needs.purchases).await? {
            loaded.insert(row);
        }
        alias::load(connection, &needs, &mut loaded).await?;
        let mut numbers = Numbers::block(**newest + 1, operation.numbers());
        let planned = plan([operation], loaded, &mut numbers)?;
        if !planned.writes.is_empty() {
            self.persist(&planned.writes).await?;
        }
        *self.newest = numbers.newest();
        let answer = planned.answers(|_| true).pop().flatten();
        answer.ok_or(StoreError::corrupt("an operation without an answer"))
    }

    /// Persists `writes`, all or nothing. Writes the counts of uses to `delivery_count` at once instead of making them
    /// [pending](super::pending). The host application may roll back to a savepoint, and pending counts would not be
    /// rolled back.
    async fn persist(&mut self, writes: &Writes) -> Result<(), StoreError> {
        let counts: Vec<(i64, u64, i64)> = writes.uses.iter().map(|used| (used.key, used.used, used.number)).collect();
        *self.uses += counts.len();
        let changed = writes.keys.iter().filter(|write| write.loaded.is_some()).map(|write| write.row.key.id());
        self.stale.push(Stale::Keys(changed.collect()));
        self.begin().await?;
        let written = match persist(self.connection, writes).await {
            Ok(()) => flush::write(self.connection, &counts).await,
            error => error,
        };
        self.end(written).await
    }

    /// Begins a savepoint for one part of the transaction. Fails if the transaction has ended, for example because the
    /// disk was full: a savepoint would then begin a transaction of its own, which would be committed separately. To
    /// find out whether the transaction has ended, this tries BEGIN, which fails while a transaction is open.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if self.connection.execute("BEGIN").await.is_ok() {
            self.connection.execute("ROLLBACK").await.map_err(store_error)?;
            return Err(StoreError::refused(std::io::Error::other("the transaction has ended")));
        }
        self.connection.execute("SAVEPOINT delivery").await.map(drop).map_err(store_error)
    }

    /// Ends the savepoint of [`begin`](Self::begin). Undoes the changes since then if `done` is an error.
    async fn end<T>(&mut self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        let end = if done.is_ok() { "RELEASE delivery" } else { "ROLLBACK TO delivery; RELEASE delivery" };
        let ended = sqlx::raw_sql(end).execute(&mut *self.connection).await.map_err(store_error);
        let done = done?;
        ended.map(|_| done)
    }
}

#[async_trait]
impl HostTransactions for SqliteStore {
    async fn issue(&self, transaction: HostTransaction<'_>, sale: &NewSale) -> Result<Issue, StoreError> {
        let operation = Operation::Issue(Box::new(sale.clone()));
        self.own(transaction)?.operate(&operation).await?.issued()
    }

    async fn change(
        &self,
        transaction: HostTransaction<'_>,
        change: ChangeKey,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        self.own(transaction)?.operate(&Operation::Change(change)).await?.changed()
    }

    async fn add_product(
        &self,
        transaction: HostTransaction<'_>,
        product: NewProduct,
        edit: Edit,
    ) -> Result<Arc<Product>, StoreError> {
        let mut transaction = self.own(transaction)?;
        transaction.begin().await?;
        let mut session = cold::writing(transaction.connection, transaction.newest);
        let added = catalog::add(&mut session, &product, &edit).await;
        let stale = session.into_stale();
        transaction.stale.extend(stale);
        transaction.end(added).await
    }

    /// Does nothing: the store itself commits the transaction.
    fn committed(&self) {}
}

impl SqliteStore {
    fn own<'t>(&self, transaction: HostTransaction<'t>) -> Result<SqliteTransaction<'t>, StoreError> {
        match transaction {
            HostTransaction::Sqlite(own) if std::ptr::eq(own.cache, Arc::as_ptr(&self.cache)) => Ok(own),
            _ => Err(elsewhere()),
        }
    }
}
