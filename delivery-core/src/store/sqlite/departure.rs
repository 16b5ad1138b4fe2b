//! A file whose store moves into another database.

use std::fs::File;
use std::path::Path;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::open::{self, Opened};
use super::{SqliteError, SqliteStore, ring};
use crate::key::Fingerprint;
use crate::store::rows::{self, Mark};
use crate::store::statements::{MARK, limit};
use crate::store::transfer::{Chunk, Table};
use crate::store::{Ledger, StoreError};

/// The file, locked, with every use counted in its key's row and no letter leased.
#[derive(Debug)]
pub(in crate::store) struct Departure {
    connection: SqliteConnection,
    _lock: File,
}

impl Departure {
    pub(in crate::store) async fn open(path: &Path) -> Result<Self, SqliteError> {
        // A store ends leases when it opens and folds its uses when it closes; one that was moved did so before.
        match SqliteStore::open(path).await {
            Ok(store) => store.close().await,
            Err(SqliteError::Moved { .. }) => {}
            Err(error) => return Err(error),
        }
        let Opened { writer, lock, .. } = open::prepare(path).await?;
        Ok(Self { connection: writer, _lock: lock })
    }

    /// The move that was begun or finished.
    pub(in crate::store) async fn mark(&mut self) -> Result<Option<Mark>, StoreError> {
        let mark = sqlx::query(MARK).fetch_optional(&mut self.connection).await.map_err(store_error)?;
        mark.map(|row| rows::mark(&row)).transpose()
    }

    /// Whether the rows of keys count all of their uses.
    pub(in crate::store) async fn is_folded(&mut self) -> Result<bool, StoreError> {
        const SQL: &str =
            "SELECT coalesce((SELECT max(number) FROM delivery_use), 0) <= (SELECT number FROM delivery_fold)";
        sqlx::query_scalar(SQL).fetch_one(&mut self.connection).await.map_err(store_error)
    }

    /// Remembers that a move began; the store can still be used.
    pub(in crate::store) async fn begin(&mut self, id: &[u8]) -> Result<(), StoreError> {
        let begin = sqlx::query("INSERT OR REPLACE INTO delivery_move (one, id) VALUES (1, ?)").bind(id);
        begin.execute(&mut self.connection).await.map(drop).map_err(store_error)
    }

    /// From here on the store opens no more.
    pub(in crate::store) async fn finish(&mut self, at: DateTime<Utc>) -> Result<(), StoreError> {
        let finish = sqlx::query("UPDATE delivery_move SET finished_at = ?").bind(at.timestamp_millis());
        finish.execute(&mut self.connection).await.map(drop).map_err(store_error)
    }

    pub(in crate::store) async fn ring(&mut self) -> Result<Vec<Fingerprint>, StoreError> {
        ring::stored(&mut self.connection).await
    }

    pub(in crate::store) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {}", table.name));
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut self.connection).await.map_err(store_error)?;
        Ok(count.unsigned_abs())
    }

    /// The next rows after number `after`.
    pub(in crate::store) async fn read(&mut self, table: &Table, after: i64) -> Result<Chunk, StoreError> {
        let (list, name, number) = (table.list(), table.name, table.number());
        let sql = format!("SELECT {list} FROM {name} WHERE {number} > ? ORDER BY {number} LIMIT ?");
        let read = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(after).bind(limit(table.chunk));
        table.chunk(&read.fetch_all(&mut self.connection).await.map_err(store_error)?)
    }
}
