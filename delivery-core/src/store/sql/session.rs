//! One interface to both databases for everything that is not performance-critical: lists, the catalog, the inbox,
//! figures, erasure.
//!
//! A [`Session`] takes SQL text and [values](Value), and returns [rows](Row). Both databases understand the SQL text; a
//! [`Dialect`] provides the parts that differ. A [`Database`] opens sessions, either for reading or for a transaction
//! that writes.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::rows::Columns;
use super::statements::LOG;
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::plan::{Loaded, ReferenceId, number_at};
use crate::ledger::{Action, Edit};
use crate::store::StoreError;
use crate::store::cache::{PostCache, ProductCache};

/// A parameter of a statement, or the value of a column. `None` stands for NULL. A NULL parameter also has a type,
/// because PostgreSQL requires one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    /// A list of integers, as a parameter for [`Dialect::any_of`].
    Integers(Vec<i64>),
}

/// Makes the list of a statement's parameters from values, in the order of the parameters.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(crate::store::sql::session::Value::from($value)),*] };
}
pub(in crate::store) use values;

/// The values of a row that was read, and the names of its columns.
#[derive(Debug, Clone)]
pub(in crate::store) struct Row {
    names: Arc<[String]>,
    values: Vec<Value>,
}

/// The SQL dialect of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Dialect {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// Cached data that is outdated because a write has changed the database.
#[derive(Debug)]
pub(in crate::store) enum Stale {
    /// Products, or the list of all products.
    Products,
    /// The keys with these ids.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "PostgreSQL's cache compares versions instead"))]
    Keys(Vec<KeyId>),
}

/// A connection to a database. This is all that a database must implement for a [`Session`].
#[async_trait]
pub(in crate::store) trait Connection: Send {
    /// Executes a statement.
    async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<Executed, StoreError>;

    /// Returns a row number that is unused and is never handed out again. May be called only in a session that writes.
    async fn number(&mut self) -> Result<i64, StoreError>;

    /// Loads the [deals](crate::ledger::Deal) that `references` identify, without locking them. A deal is what a
    /// platform has reported about one sale or subscription.
    async fn deals(&mut self, references: HashSet<ReferenceId>) -> Result<Loaded, StoreError>;
}

/// The result of a statement.
#[derive(Debug, Default)]
pub(in crate::store) struct Executed {
    pub(in crate::store) rows: Vec<Row>,
    /// How many rows the statement changed. Meaningful only for a statement that writes.
    pub(in crate::store) changed: u64,
}

/// A database connection, for the duration of one [`Task`].
pub(in crate::store) struct Session<'c> {
    connection: Box<dyn Connection + 'c>,
    dialect: Dialect,
    stale: Vec<Stale>,
}

/// A closure that works on a [`Session`].
pub(in crate::store) trait Task<T>:
    for<'s, 'c> FnOnce(&'s mut Session<'c>) -> BoxFuture<'s, Result<T, StoreError>> + Send + 'static
{
}

impl<T, W> Task<T> for W where
    W: for<'s, 'c> FnOnce(&'s mut Session<'c>) -> BoxFuture<'s, Result<T, StoreError>> + Send + 'static
{
}

/// How long a task may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Patience {
    /// As long as a caller is willing to wait: a few seconds.
    Usual,
    /// Long enough to read every row, or to wait until other transactions release their row locks.
    Long,
}

/// What the code in this folder needs from a SQL store.
pub(in crate::store) trait Database: std::fmt::Debug + Send + Sync + 'static {
    /// Runs a task that only reads. With [`Patience::Long`], all its reads see the same snapshot of the database.
    fn read<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl Task<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs a task in a transaction. If the task fails, the transaction is rolled back. A task that has begun completes
    /// even if the caller stops waiting.
    fn write<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl Task<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Saves the request of the buyer with address `email`, who has lost their keys. The buyer made the request at
    /// `at`, in milliseconds since 1970.
    fn ask_lost(&self, email: &Email, at: i64) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns the number of the newest use of the key with this id; `None` if the key has no use or is unknown.
    fn newest_use(&self, id: KeyId) -> impl Future<Output = Result<Option<i64>, StoreError>> + Send;

    /// Removes the old contents of overwritten and deleted rows from the database's files, so that erased data cannot
    /// be recovered. Does nothing on PostgreSQL, whose vacuum does this.
    fn ensure_overwritten(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns whether other servers may change the database.
    fn is_shared(&self) -> bool;

    fn products(&self) -> &ProductCache;

    fn posts(&self) -> &PostCache;
}

/// Changes many rows in several transactions, so that other work can run between them.
///
/// Calls `part` repeatedly, each time with the row number from which to continue, at first 0. Each call is one
/// transaction, with [`Patience::Long`], because the failure of one transaction ends the whole task. `part` returns how
/// many rows it changed, and the row number for the next call; `None` if everything is done. The result is the total
/// number of changed rows.
pub(in crate::store) async fn part_by_part<F>(part: impl Fn(i64) -> F) -> Result<u64, StoreError>
where
    F: Future<Output = Result<(u64, Option<i64>), StoreError>>,
{
    let (mut total, mut from) = (0, 0);
    loop {
        let (changed, next) = part(from).await?;
        total += changed;
        match next {
            Some(next) => from = next,
            None => return Ok(total),
        }
    }
}

impl<'c> Session<'c> {
    pub(in crate::store) fn new(dialect: Dialect, connection: impl Connection + 'c) -> Self {
        Self { connection: Box::new(connection), dialect, stale: Vec::new() }
    }

    pub(in crate::store) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Executes a statement and returns its rows.
    pub(in crate::store) async fn rows(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        Ok(self.connection.run(sql, values).await?.rows)
    }

    /// Executes a statement that returns at most one row. Returns that row.
    pub(in crate::store) async fn row(&mut self, sql: &str, values: Vec<Value>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Executes a statement. Returns how many rows it changed.
    pub(in crate::store) async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        Ok(self.connection.run(sql, values).await?.changed)
    }

    /// See [`Connection::number`].
    pub(in crate::store) async fn number(&mut self) -> Result<i64, StoreError> {
        self.connection.number().await
    }

    /// See [`Connection::deals`].
    pub(in crate::store) async fn deals(&mut self, references: HashSet<ReferenceId>) -> Result<Loaded, StoreError> {
        self.connection.deals(references).await
    }

    /// Adds an entry to the audit log. The entry concerns the key with row number `key`, the product with number
    /// `product`, or neither.
    pub(in crate::store) async fn log(
        &mut self,
        (key, product): (Option<i64>, Option<i64>),
        action: Action,
        edit: &Edit,
    ) -> Result<(), StoreError> {
        let number = number_at(edit.at, self.number().await?);
        let at = edit.at.timestamp_millis();
        let entry = values![number, key, product, at, edit.by.as_str(), action.as_str(), edit.detail.clone()];
        self.execute(LOG, entry).await.map(drop)
    }

    /// Records that this cached data is outdated once the transaction is committed.
    pub(in crate::store) fn changed(&mut self, stale: Stale) {
        self.stale.push(stale);
    }

    /// Ends the session, and returns which cached data is outdated once the transaction is committed.
    pub(in crate::store) fn into_stale(self) -> Vec<Stale> {
        self.stale
    }
}

impl Dialect {
    pub(in crate::store) fn is_sqlite(self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => true,
            #[cfg(feature = "postgres")]
            Self::Postgres => false,
        }
    }

    /// Extends a SELECT, on PostgreSQL, so that it locks its rows until the commit. If another transaction holds a lock
    /// on a row, the SELECT waits for that lock.
    pub(in crate::store) fn locking(self, sql: &str) -> String {
        self.on_postgres(sql, " FOR UPDATE")
    }

    /// Extends a SELECT, on PostgreSQL, so that it locks its rows until the commit. If another transaction holds a lock
    /// on a row, the SELECT skips that row.
    pub(in crate::store) fn skipping(self, sql: &str) -> String {
        self.on_postgres(sql, " FOR UPDATE SKIP LOCKED")
    }

    /// Returns the condition that `column` is among the [integers](Value::Integers) of `parameter`.
    pub(in crate::store) fn any_of(self, column: &str, parameter: &str) -> String {
        if self.is_sqlite() {
            format!("{column} IN (SELECT value FROM json_each({parameter}))")
        } else {
            format!("{column} = ANY({parameter})")
        }
    }

    fn on_postgres(self, sql: &str, clause: &str) -> String {
        // SQLite has a single writer, so no other transaction locks rows.
        if self.is_sqlite() { sql.to_owned() } else { format!("{sql}{clause}") }
    }
}

impl Row {
    pub(in crate::store) fn new(names: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// Returns the values, in the order of the columns.
    pub(in crate::store) fn into_values(self) -> Vec<Value> {
        self.values
    }

    fn column(&self, name: &str) -> Result<&Value, StoreError> {
        let at = self.names.iter().position(|it| it == name);
        at.and_then(|at| self.values.get(at)).ok_or(StoreError::corrupt("a column that was not asked for"))
    }
}

/// Returns the names of a row's columns.
pub(in crate::store) fn column_names<R: sqlx::Row>(row: &R) -> Arc<[String]> {
    row.columns().iter().map(|column| sqlx::Column::name(column).to_owned()).collect()
}

/// Returns the error for a column whose value has another type than expected, or is NULL although a value is required.
fn unexpected() -> StoreError {
    StoreError::corrupt("a column of another type")
}

impl Columns for Row {
    fn integer(&self, name: &'static str) -> Result<i64, StoreError> {
        self.integer_or_null(name)?.ok_or_else(unexpected)
    }

    fn integer_or_null(&self, name: &'static str) -> Result<Option<i64>, StoreError> {
        match self.column(name)? {
            Value::Integer(value) => Ok(*value),
            Value::Text(None) | Value::Bytes(None) => Ok(None),
            _ => Err(unexpected()),
        }
    }

    fn text(&self, name: &'static str) -> Result<&str, StoreError> {
        self.text_or_null(name)?.ok_or_else(unexpected)
    }

    fn text_or_null(&self, name: &'static str) -> Result<Option<&str>, StoreError> {
        match self.column(name)? {
            Value::Text(value) => Ok(value.as_deref()),
            Value::Integer(None) | Value::Bytes(None) => Ok(None),
            _ => Err(unexpected()),
        }
    }

    fn bytes(&self, name: &'static str) -> Result<&[u8], StoreError> {
        self.bytes_or_null(name)?.ok_or_else(unexpected)
    }

    fn bytes_or_null(&self, name: &'static str) -> Result<Option<&[u8]>, StoreError> {
        match self.column(name)? {
            Value::Bytes(value) => Ok(value.as_deref()),
            Value::Integer(None) | Value::Text(None) => Ok(None),
            _ => Err(unexpected()),
        }
    }
}

macro_rules! value_from {
    ($($type:ty, $variant:ident, $value:ident => $into:expr;)+) => { $(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                Self::$variant($into)
            }
        }
    )+ };
}
value_from! {
    i64, Integer, value => Some(value);
    Option<i64>, Integer, value => value;
    &str, Text, value => Some(value.to_owned());
    String, Text, value => Some(value);
    Option<&str>, Text, value => value.map(str::to_owned);
    Option<String>, Text, value => value;
    &[u8], Bytes, value => Some(value.to_vec());
    Vec<u8>, Bytes, value => Some(value);
    Vec<i64>, Integers, value => value;
}
