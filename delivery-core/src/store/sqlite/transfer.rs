//! A file whose store moves into another database.

use std::path::Path;

use chrono::{DateTime, Utc};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use super::error::store_error;
use super::lock::Lock;
use super::open::{self, Opened};
use super::{SqliteError, flush, keyring, messages};
use crate::key::Fingerprint;
use crate::store::StoreError;
use crate::store::sql::rows::{self, Columns, TransferState};
use crate::store::sql::statements::TRANSFER;
use crate::store::sql::tables::{Chunk, Place, Table, bind_place};

/// The file, which nobody else uses while this lives.
#[derive(Debug)]
pub(in crate::store) struct TransferSource {
    connection: SqliteConnection,
    _lock: Lock,
}

impl TransferSource {
    /// None if the file is no store.
    pub(in crate::store) async fn open(path: &Path) -> Result<Option<Self>, SqliteError> {
        if !is_store(path).await? {
            return Ok(None);
        }
        let Opened { mut writer, lock, .. } = open::prepare(path).await?;
        // Our lock goes by the file's name, SQLite's by the file: one that serves it under another name is noticed here.
        let begin = "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT";
        let alone = writer.execute(begin).await;
        alone.map_err(|source| SqliteError::while_opening(path.to_owned(), source))?;
        Ok(Some(Self { connection: writer, _lock: lock }))
    }

    /// Flushes every count, and gives leased messages back: nobody is sending them.
    pub(in crate::store) async fn prepare(&mut self) -> Result<(), StoreError> {
        flush::flush_file(&mut self.connection).await?;
        messages::end_leases(&mut self.connection).await
    }

    /// The transfer that was begun or finished.
    pub(in crate::store) async fn state(&mut self) -> Result<Option<TransferState>, StoreError> {
        let state = sqlx::query(TRANSFER).fetch_optional(&mut self.connection).await.map_err(store_error)?;
        state.map(|row| rows::transfer(&row)).transpose()
    }

    /// Remembers that a move began; the store can still be used.
    pub(in crate::store) async fn begin(&mut self, id: &[u8]) -> Result<(), StoreError> {
        let begin = sqlx::query("INSERT OR REPLACE INTO delivery_transfer (one, id) VALUES (1, ?)").bind(id);
        begin.execute(&mut self.connection).await.map_err(store_error)?;
        self.checkpoint().await
    }

    /// From here on the store opens no more.
    pub(in crate::store) async fn finish(mut self, at: DateTime<Utc>) -> Result<(), StoreError> {
        let finish = sqlx::query("UPDATE delivery_transfer SET finished_at = ?").bind(at.timestamp_millis());
        if finish.execute(&mut self.connection).await.map_err(store_error)?.rows_affected() != 1 {
            return Err(StoreError::corrupt("a transfer that was finished and never begun"));
        }
        self.checkpoint().await?;
        self.connection.close().await.map_err(store_error)
    }

    /// The state must stand in the file itself: who copies that may forget its journal.
    async fn checkpoint(&mut self) -> Result<(), StoreError> {
        let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut self.connection).await;
        match checkpoint.map_err(store_error)?.integer("busy")? {
            0 => Ok(()),
            _ => Err(StoreError::unavailable("somebody reads the file that is moved")),
        }
    }

    pub(in crate::store) async fn keyring(&mut self) -> Result<Vec<Fingerprint>, StoreError> {
        keyring::registered(&mut self.connection).await
    }

    pub(in crate::store) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let count = sqlx::query_scalar(AssertSqlSafe(table.count())).fetch_one(&mut self.connection);
        count.await.map(i64::unsigned_abs).map_err(store_error)
    }

    /// The next rows after `after`.
    pub(in crate::store) async fn read(&mut self, table: &Table, after: &Place) -> Result<Chunk, StoreError> {
        let read = bind_place!(sqlx::query(AssertSqlSafe(table.select("delivery_counted_key"))), after, table);
        table.chunk(&read.fetch_all(&mut self.connection).await.map_err(store_error)?)
    }
}

/// Whether the file is one of ours, found out without changing it.
async fn is_store(path: &Path) -> Result<bool, SqliteError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'delivery_key')";
    let failed = |source| SqliteError::while_opening(path.to_owned(), source);
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(false).pragma("query_only", "1");
    let mut connection = options.disable_statement_logging().connect().await.map_err(failed)?;
    let is_store = sqlx::query_scalar(SQL).fetch_one(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    Ok(is_store)
}
