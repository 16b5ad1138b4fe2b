//! One way to both databases, for everything but what customers wait for: searches, lists, the catalog, the inbox.
//!
//! A [`Session`] takes SQL text and [values](Value), and returns [rows](Row). Both databases understand the texts, or a
//! [`Dialect`] has the part that differs. A [`Database`] gives sessions: one that reads, or one that writes in a transaction.

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

/// A value that is bound to a parameter, or that a column has. Each knows its type when it is null, which PostgreSQL asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    /// A parameter for [`Dialect::any_of`].
    Integers(Vec<i64>),
}

/// The parameters of a statement, in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(crate::store::sql::session::Value::from($value)),*] };
}
pub(in crate::store) use values;

/// A row that was read: its columns by name.
#[derive(Debug, Clone)]
pub(in crate::store) struct Row {
    names: Arc<[String]>,
    values: Vec<Value>,
}

/// What the databases say differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Dialect {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// What is cached elsewhere and has changed.
#[derive(Debug)]
pub(in crate::store) enum Stale {
    /// Products, their list or their names.
    Products,
    /// These keys.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "PostgreSQL's versions tell"))]
    Keys(Vec<KeyId>),
}

/// A connection, for as long as one piece of work takes.
#[async_trait]
pub(in crate::store) trait Session: Send {
    /// The rows that a statement returns.
    async fn rows(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError>;

    /// Executes a statement. Returns how many rows it changed.
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError>;

    /// A number that no row has and that is never handed out again. Only for a session that writes.
    async fn number(&mut self) -> Result<i64, StoreError>;

    /// The deals that references lead to.
    async fn deals(&mut self, references: HashSet<ReferenceId>) -> Result<Loaded, StoreError>;

    /// Says what caches must forget once this is committed.
    fn changed(&mut self, stale: Stale);

    fn dialect(&self) -> Dialect;
}

/// Work on a session.
pub(in crate::store) trait Task<T>:
    for<'s> FnOnce(&'s mut (dyn Session + 's)) -> BoxFuture<'s, Result<T, StoreError>> + Send + 'static
{
}

impl<T, W> Task<T> for W where
    W: for<'s> FnOnce(&'s mut (dyn Session + 's)) -> BoxFuture<'s, Result<T, StoreError>> + Send + 'static
{
}

/// How long a database may take over a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Patience {
    /// As long as a caller waits.
    Usual,
    /// As long as reading every row takes, or waiting until everybody else lets go of the rows.
    Long,
}

/// A store in a database, as this folder sees it.
pub(in crate::store) trait Database: std::fmt::Debug + Send + Sync + 'static {
    /// Runs work that only reads. With [`Patience::Long`] it sees the database as of one instant.
    fn read<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl Task<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs work in a transaction. If the work fails, nothing of it remains. Work that was begun ends even if its caller stops
    /// waiting.
    fn write<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl Task<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Keeps the request of a buyer who lost their keys, made at this millisecond.
    fn ask_lost(&self, email: &Email, at: i64) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Makes sure that nothing is left of rows that were overwritten.
    fn ensure_overwritten(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether other servers change it too.
    fn is_shared(&self) -> bool;

    fn products(&self) -> &ProductCache;

    fn posts(&self) -> &PostCache;
}

/// Runs work part by part, so that other work gets its turn between. `part` changes the rows from a number on, and returns how
/// many those were and where the next part begins.
pub(in crate::store) async fn part_by_part<P>(database: &impl Database, part: P) -> Result<u64, StoreError>
where
    P: for<'s> Fn(&'s mut (dyn Session + 's), i64) -> BoxFuture<'s, Result<(u64, Option<i64>), StoreError>>
        + Send
        + Sync
        + Clone
        + 'static,
{
    let (mut total, mut from) = (0, 0);
    loop {
        let part = part.clone();
        let (changed, next) = database.write(Patience::Usual, move |session| part(session, from)).await?;
        total += changed;
        match next {
            Some(next) => from = next,
            None => return Ok(total),
        }
    }
}

/// The one row of a statement that returns at most one.
pub(in crate::store) async fn row(
    session: &mut (dyn Session + '_),
    sql: &str,
    values: Vec<Value>,
) -> Result<Option<Row>, StoreError> {
    Ok(session.rows(sql, values).await?.into_iter().next())
}

/// Adds an entry to the audit log: of a key's row, of a product, or of neither.
pub(in crate::store) async fn log(
    session: &mut (dyn Session + '_),
    (key, product): (Option<i64>, Option<i64>),
    action: Action,
    edit: &Edit,
) -> Result<(), StoreError> {
    let number = number_at(edit.at, session.number().await?);
    let at = edit.at.timestamp_millis();
    let entry = values![number, key, product, at, edit.by.as_str(), action.as_str(), edit.detail.clone()];
    session.execute(LOG, entry).await.map(drop)
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

    /// The statement, which then waits for rows that another server holds, and holds them until it is committed.
    pub(in crate::store) fn locking(self, sql: &str) -> String {
        self.on_postgres(sql, " FOR UPDATE")
    }

    /// The statement, which then leaves out rows that another server holds, and holds the others until it is committed.
    pub(in crate::store) fn skipping(self, sql: &str) -> String {
        self.on_postgres(sql, " FOR UPDATE SKIP LOCKED")
    }

    /// `column` is among the [integers](Value::Integers) of `parameter`.
    pub(in crate::store) fn any_of(self, column: &str, parameter: &str) -> String {
        if self.is_sqlite() {
            format!("{column} IN (SELECT value FROM json_each({parameter}))")
        } else {
            format!("{column} = ANY({parameter})")
        }
    }

    fn on_postgres(self, sql: &str, clause: &str) -> String {
        // SQLite has one writer, and nobody else holds a row.
        if self.is_sqlite() { sql.to_owned() } else { format!("{sql}{clause}") }
    }
}

impl Row {
    pub(in crate::store) fn new(names: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// The values, in the order of the columns.
    pub(in crate::store) fn into_values(self) -> Vec<Value> {
        self.values
    }

    fn column(&self, name: &str) -> Result<&Value, StoreError> {
        let at = self.names.iter().position(|it| it == name);
        at.and_then(|at| self.values.get(at)).ok_or(StoreError::corrupt("a column that was not asked for"))
    }
}

/// A column that is null although it must not be, or of another type.
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
