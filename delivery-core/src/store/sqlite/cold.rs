//! SQLite's implementation of [`sql::session`](crate::store::sql::session), which is used for everything that is not
//! performance-critical, such as lists, figures and erasure.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection as _, Either, Executor, Sqlite, TypeInfo, ValueRef};

use super::error::store_error;
use super::json::json;
use super::writer::Writer;
use super::{SqliteStore, inbox, timely_for};
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::plan::{Loaded, ReferenceId};
use crate::store::StoreError;
use crate::store::batch::STALLED;
use crate::store::cache::{PostCache, ProductCache};
use crate::store::sql::records::FIGURES;
use crate::store::sql::session::{
    Connection, Database, Dialect, Executed, Patience, Row, Session, Task, Value, column_names,
};

/// The maximum number of row numbers that one task may take. They are reserved before the task begins.
pub(super) const NUMBERS: i64 = 10_000;

struct Cold<'c> {
    connection: &'c mut SqliteConnection,
    /// The row number that was taken last, and the highest row number that may be taken. `None` for a session that only
    /// reads.
    numbers: Option<(&'c mut i64, i64)>,
}

/// Returns a session that only reads.
pub(super) fn reading(connection: &mut SqliteConnection) -> Session<'_> {
    Session::new(Dialect::Sqlite, Cold { connection, numbers: None })
}

/// Returns a session that writes, inside an open transaction. The caller must have reserved the [`NUMBERS`] row numbers
/// after `newest`.
pub(super) fn writing<'c>(connection: &'c mut SqliteConnection, newest: &'c mut i64) -> Session<'c> {
    let last = *newest + NUMBERS;
    Session::new(Dialect::Sqlite, Cold { connection, numbers: Some((newest, last)) })
}

#[async_trait]
impl Connection for Cold<'_> {
    async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<Executed, StoreError> {
        let mut results = self.connection.fetch_many(bound(sql, values)?);
        let (mut executed, mut names) = (Executed::default(), None);
        while let Some(result) = results.try_next().await.map_err(store_error)? {
            match result {
                Either::Left(done) => executed.changed += done.rows_affected(),
                Either::Right(row) => {
                    let names = names.get_or_insert_with(|| column_names(&row)).clone();
                    executed.rows.push(Row::new(names, values_of(&row)?));
                }
            }
        }
        Ok(executed)
    }

    async fn number(&mut self) -> Result<i64, StoreError> {
        match &mut self.numbers {
            Some((newest, last)) if **newest < *last => {
                **newest += 1;
                Ok(**newest)
            }
            _ => Err(StoreError::corrupt("more numbers than one piece of work may take")),
        }
    }

    async fn deals(&mut self, references: HashSet<ReferenceId>) -> Result<Loaded, StoreError> {
        inbox::deals(self.connection, references).await
    }
}

/// Returns a statement with its parameters.
pub(super) fn bound(sql: &str, values: Vec<Value>) -> Result<Query<'static, Sqlite, SqliteArguments>, StoreError> {
    let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    for value in values {
        query = match value {
            Value::Integer(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
            Value::Integers(values) => query.bind(json(&values)?),
        };
    }
    Ok(query)
}

fn values_of(row: &SqliteRow) -> Result<Vec<Value>, StoreError> {
    let value = |index: usize| {
        let raw = sqlx::Row::try_get_raw(row, index).map_err(store_error)?;
        // SQLite reports no type for NULL, so the variant does not matter: a [`Row`] treats the `None` of every variant
        // as NULL.
        if raw.is_null() {
            return Ok(Value::Text(None));
        }
        let kind = raw.type_info();
        match kind.name() {
            "TEXT" => sqlx::Row::try_get(row, index).map(Value::Text),
            "BLOB" => sqlx::Row::try_get(row, index).map(Value::Bytes),
            _ => sqlx::Row::try_get(row, index).map(Value::Integer),
        }
        .map_err(store_error)
    };
    (0..sqlx::Row::len(row)).map(value).collect()
}

impl Database for SqliteStore {
    async fn read<T: Send + 'static>(&self, patience: Patience, work: impl Task<T>) -> Result<T, StoreError> {
        read(self, if patience == Patience::Long { FIGURES } else { STALLED }, work).await
    }

    async fn write<T: Send + 'static>(&self, _: Patience, work: impl Task<T>) -> Result<T, StoreError> {
        self.writer()?.run(move |writer| Box::pin(write(writer, work))).await
    }

    async fn ask_lost(&self, email: &Email, at: i64) -> Result<(), StoreError> {
        self.task(|tasks| &tasks.asks)?.submit((email.as_str().to_owned(), at)).await
    }

    async fn newest_use(&self, id: KeyId) -> Result<Option<i64>, StoreError> {
        Ok(self.row(id).await?.and_then(|row| row.last_use))
    }

    async fn ensure_overwritten(&self) -> Result<(), StoreError> {
        self.truncate_wal().await
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn products(&self) -> &ProductCache {
        &self.cache.products
    }

    fn posts(&self) -> &PostCache {
        &self.cache.posts
    }
}

async fn read<T>(store: &SqliteStore, limit: Duration, work: impl Task<T>) -> Result<T, StoreError> {
    timely_for(limit, async {
        // All reads of the task are in one transaction, so they see one snapshot.
        let mut snapshot = store.readers.begin().await.map_err(store_error)?;
        work(&mut reading(&mut snapshot)).await
    })
    .await
}

pub(super) async fn write<T>(writer: &mut Writer, work: impl Task<T>) -> Result<T, StoreError> {
    // The numbers are reserved before the transaction begins, so that a rollback does not undo the reservation.
    writer.reserve(NUMBERS).await?;
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    let mut session = writing(&mut transaction, &mut writer.newest);
    let done = work(&mut session).await?;
    let stale = session.into_stale();
    transaction.commit().await.map_err(store_error)?;
    writer.refresh(stale).await;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::rows::Columns;
    use crate::store::{LostKeys, Records};

    #[tokio::test]
    async fn figures_that_do_not_come_are_given_up_and_those_after_them_come() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("x.db")).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..store.readers.options().get_max_connections() {
            held.push(store.readers.acquire().await.unwrap());
        }
        let now = chrono::DateTime::UNIX_EPOCH;
        let given_up = read(&store, Duration::ZERO, |_| Box::pin(async { Ok(()) })).await.unwrap_err();
        assert!(given_up.to_string().contains("the disk does not answer"), "{given_up}");
        drop(held);
        assert!(store.figures(now, now).await.unwrap().keys.is_empty());
    }

    /// After an I/O error, SQLite ends the transaction by itself, but the driver believes that the transaction is still
    /// open. From then on, the driver begins only savepoints on this connection. When a savepoint ends, its read
    /// transaction stays open. So each later reader on the connection would see the same old rows.
    #[tokio::test]
    async fn a_transaction_that_sqlite_ends_by_itself_makes_no_reader_see_old_rows() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("x.db")).await.unwrap();
        let mut reader = store.readers.acquire().await.unwrap();
        let mut transaction = reader.begin().await.unwrap();
        sqlx::query("ROLLBACK").execute(&mut *transaction).await.unwrap();
        drop(transaction);
        drop(reader);
        // The connection returns to the pool in a background task.
        while store.readers.num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        let asks = async || {
            let sql = "SELECT count(*) AS asks FROM delivery_lost";
            let count = read(&store, Duration::from_secs(5), move |session| Box::pin(session.row(sql, Vec::new())));
            count.await.unwrap().unwrap().integer("asks").unwrap()
        };
        assert_eq!(asks().await, 0);
        store.ask(&"ada@example.com".parse().unwrap(), chrono::DateTime::UNIX_EPOCH).await.unwrap();
        assert_eq!(asks().await, 1);
    }
}
