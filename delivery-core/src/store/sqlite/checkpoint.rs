//! Checkpoints: what the write-ahead log has gathered goes into the file, beside the writer.
//!
//! By itself SQLite does it in whichever commit finds a thousand pages in the log, and everyone waits for thousands of
//! writes and their sync. Here a connection of its own copies and syncs while commits go on. Since they do, it never
//! catches up entirely; so the writer copies the few pages that came meanwhile, between two batches, and its next commit
//! begins the log anew. The log stays at some times [`THRESHOLD`], and keeps its size on the disk, so that a commit writes into
//! room it has and syncs no file's length.

use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::task::JoinHandle;

use super::error::store_error;
use super::lock::Lock;
use crate::store::StoreError;
use crate::store::sql::rows::Columns;

/// Pages in the log before it is copied: 8 MiB. A start after a crash reads them in some ten milliseconds.
const THRESHOLD: i64 = 2048;
/// Batches between two looks at the log.
const CHECK_EVERY: u32 = 64;
/// So many pages the writer copies by itself: some milliseconds.
const LEFT_OVER: i64 = THRESHOLD / 4;
/// In a log of so many pages it copies whatever there is: the disk is too slow to catch up beside it.
const TOO_MANY: i64 = 16 * THRESHOLD;

/// Whether a checkpoint is due, or under way.
#[derive(Default)]
pub(super) struct Checkpoints {
    /// Batches since the last look.
    batches: u32,
    under_way: Option<JoinHandle<Result<(), StoreError>>>,
}

impl Checkpoints {
    /// After a batch: begins a checkpoint that is due, and finishes one that has been made beside the writer.
    pub(super) async fn maintain(
        &mut self,
        writer: &mut SqliteConnection,
        (options, lock): (&SqliteConnectOptions, &Arc<Lock>),
    ) -> Result<(), StoreError> {
        const SIZE: &str = "PRAGMA wal_checkpoint(NOOP)";
        self.batches += 1;
        let ended = self.under_way.as_ref().is_some_and(JoinHandle::is_finished);
        if !ended && (self.under_way.is_some() || self.batches < CHECK_EVERY) {
            return Ok(());
        }
        // First: one that failed is not tried again, and told of, after each batch.
        self.batches = 0;
        self.end().await?;
        let log = sqlx::query(SIZE).fetch_one(&mut *writer).await.map_err(store_error)?;
        let (pages, copied) = (log.integer("log")?, log.integer("checkpointed")?);
        if ended && (pages - copied <= LEFT_OVER || pages >= TOO_MANY) {
            return checkpoint(writer).await;
        }
        if ended || pages >= THRESHOLD {
            self.under_way = Some(tokio::spawn(checkpoint_concurrently(options.clone(), lock.clone())));
        }
        Ok(())
    }

    /// Waits for the checkpoint that is under way.
    pub(super) async fn end(&mut self) -> Result<(), StoreError> {
        let Some(task) = self.under_way.take() else { return Ok(()) };
        task.await.unwrap_or_else(|_| Err(StoreError::unavailable("the checkpoint was broken off")))
    }
}

/// Holds the file's lock: nobody else opens it before this is done too.
async fn checkpoint_concurrently(options: SqliteConnectOptions, _lock: Arc<Lock>) -> Result<(), StoreError> {
    let mut connection = options.create_if_missing(false).connect().await.map_err(store_error)?;
    checkpoint(&mut connection).await?;
    connection.close().await.map_err(store_error)
}

/// Copies what no reader still needs from the log: waits for nobody.
async fn checkpoint(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(connection).await.map(drop).map_err(store_error)
}
