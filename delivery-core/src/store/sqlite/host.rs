//! Transactions of the host application, on the connection that writes.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use tokio::time::timeout;

use super::cache::Cache;
use super::error::store_error;
use super::persist::persist;
use super::writer::{Writer, has_ended, rolled_back};
use super::{SqliteStore, load};
use crate::key::KeyId;
use crate::ledger::operation::{needs, plan};
use crate::ledger::plan::{Loaded, Numbers};
use crate::ledger::{Answer, Issue, NewSale, Operation};
use crate::store::StoreError;

/// How long a transaction of the host application may take. All other writes wait for it, and are refused after five
/// seconds.
const LONGEST: Duration = Duration::from_secs(4);

/// A transaction of the host application: a connection that also [issues](Self::issue) keys.
#[derive(Debug)]
pub struct SqliteTransaction<'t> {
    connection: &'t mut SqliteConnection,
    cache: &'t Cache,
    /// The highest row number in use, including the numbers that this transaction has used.
    newest: &'t mut i64,
}

impl SqliteStore {
    /// Runs `work` in a transaction on the connection that writes. If `work` returns `Ok`, its changes to the host
    /// application's tables in the same file are committed, together with the keys that it has issued. Otherwise
    /// everything is rolled back.
    ///
    /// Nothing else is written while `work` runs, so it should execute its statements and return. After four seconds
    /// its transaction is rolled back.
    ///
    /// `work` must not call the store or the service, because they would wait for `work` to end. [Prepare the
    /// sale](crate::Delivery::prepare) before the transaction. `work` must not end the transaction. If it
    /// [begins](sqlx::Connection::begin) another transaction inside, that is a savepoint.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     delivery: delivery_core::Delivery,
    /// #     store: delivery_core::store::SqliteStore,
    /// #     order: delivery_core::order::Order,
    /// # ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let sale = delivery.prepare(order).await?;
    /// let issue = store.transaction(move |mut transaction| Box::pin(async move {
    ///     sqlx::query("INSERT INTO shop_order …").execute(&mut *transaction).await?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(transaction.issue(&sale).await?)
    /// }));
    /// let issued = delivery.committed(issue.await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error that `work` returns, or a [`StoreError`] if the transaction could not begin or be committed. Nothing
    /// was written after an error, except possibly after [`StoreError::Unknown`].
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

/// The number of row numbers that are reserved for a transaction. It is more than a transaction can use within its time
/// limit.
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
    // SQLite ends a transaction by itself in some cases, for example when the disk is full. The driver does not notice,
    // and cannot begin a new transaction on this connection. So the next batch opens another connection.
    writer.is_lost |= writer.connection.is_in_transaction();
    ended
}

async fn transact<T, E, F>(writer: &mut Writer, work: F) -> Result<Ended<T, E>, StoreError>
where
    F: for<'t> FnOnce(SqliteTransaction<'t>) -> BoxFuture<'t, Result<T, E>>,
{
    writer.reserve(MOST_NUMBERS).await?;
    let Writer { connection, cache, newest, .. } = &mut *writer;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)?;
    let mut numbers = *newest;
    let lent = SqliteTransaction { connection: &mut transaction, cache, newest: &mut numbers };
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
    // The issued keys are not added to the cache, because the host application may have undone some of them by rolling
    // back to a savepoint.
    writer.newest = numbers;
    Ok(worked)
}

impl SqliteTransaction<'_> {
    /// Issues a key inside the transaction. If the order already has a key, returns that key.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. No key was issued then. The transaction can go on, unless SQLite has ended it, for example
    /// because the disk is [full](StoreError::Full).
    pub async fn issue(&mut self, sale: &NewSale) -> Result<Issue, StoreError> {
        let Self { connection, cache, newest } = self;
        let operation = Operation::Issue(Box::new(sale.clone()));
        let needs = needs([&operation]);
        let mut loaded = Loaded::absent(&needs);
        let new: Vec<KeyId> = needs.new.iter().copied().collect();
        for row in load::keys(connection, cache, &new).await? {
            loaded.insert(row);
        }
        for row in load::purchases(connection, cache, &needs.purchases).await? {
            loaded.insert(row);
        }
        let mut numbers = Numbers::block(**newest + 1, operation.numbers());
        let planned = plan([&operation], loaded, &mut numbers)?;
        if !planned.writes.is_empty() {
            persist(connection, &planned.writes).await?;
        }
        **newest = numbers.newest();
        match planned.answers(|_| true).pop() {
            Some(Some(Answer::Issued(issue))) => Ok(issue),
            _ => Err(StoreError::corrupt("the answer of another operation")),
        }
    }
}

impl Deref for SqliteTransaction<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection
    }
}

impl DerefMut for SqliteTransaction<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection
    }
}
