//! Checkpoints: copying the write-ahead log into the file while the writer goes on.
//!
//! By default SQLite makes a checkpoint in each commit after which the log has a thousand pages or more. Every caller
//! then waits for thousands of writes and their sync. Here a separate connection copies and syncs pages while the
//! writer commits. Each commit adds further pages, so the separate connection never catches up entirely. So the writer
//! itself copies the few remaining pages between two batches. Its next commit then begins to overwrite the log from
//! the start.
//!
//! Normally the log does not grow beyond a few times [`THRESHOLD`]. It grows further while somebody reads an old
//! snapshot, such as a backup, or while the disk is too slow. These checkpoints do not shrink the log file, so that a
//! commit overwrites existing space and need not sync a new file length.

use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::task::JoinHandle;

use super::error::store_error;
use super::lock::Lock;
use crate::store::StoreError;
use crate::store::sql::rows::Columns;

/// The number of pages in the log at which a checkpoint begins. The size of these pages is 8 MiB. A start after a crash
/// reads them in about ten milliseconds.
const THRESHOLD: i64 = 2048;
/// The number of batches between two checks of the log's size.
const CHECK_EVERY: u32 = 64;
/// The maximum number of remaining pages that the writer copies itself. This takes some milliseconds.
const LEFT_OVER: i64 = THRESHOLD / 4;
/// If the log has at least this number of pages, the writer copies everything itself. The disk is then too slow for the
/// separate connection to catch up.
const TOO_MANY: i64 = 16 * THRESHOLD;

/// The state of checkpoints: whether one is due or under way.
#[derive(Default)]
pub(super) struct Checkpoints {
    /// The number of batches since the last check.
    batches: u32,
    under_way: Option<JoinHandle<Result<(), StoreError>>>,
}

impl Checkpoints {
    /// Called before each batch. Begins a checkpoint on a separate connection if a checkpoint is due. The first call
    /// after the end of that checkpoint does one of two things:
    ///
    /// - If few pages remain, or if the log has become too long, it copies the remaining pages on the writer's
    ///   connection.
    /// - Otherwise it begins another checkpoint on a separate connection.
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
        // Reset before anything can fail, so that a failure is retried and logged once per `CHECK_EVERY` batches.
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

    /// Waits for the checkpoint that is under way, and returns its result.
    pub(super) async fn end(&mut self) -> Result<(), StoreError> {
        let Some(task) = self.under_way.take() else { return Ok(()) };
        task.await.unwrap_or_else(|_| Err(StoreError::unavailable("the checkpoint was broken off")))
    }
}

/// Makes a checkpoint on a separate connection. Holds the file's lock, so nobody else opens the file before the
/// checkpoint is done.
async fn checkpoint_concurrently(options: SqliteConnectOptions, _lock: Arc<Lock>) -> Result<(), StoreError> {
    let mut connection = options.create_if_missing(false).connect().await.map_err(store_error)?;
    checkpoint(&mut connection).await?;
    connection.close().await.map_err(store_error)
}

/// Copies as much of the log as is possible without waiting for readers.
async fn checkpoint(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(connection).await.map(drop).map_err(store_error)
}
