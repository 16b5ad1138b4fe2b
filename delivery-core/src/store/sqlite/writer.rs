//! The writer: the connection that writes, and what is known beside it.

use std::fmt;
use std::sync::Arc;

use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::cache::Cache;
use super::checkpoint::Checkpoints;
use super::error::store_error;
use super::lock::Lock;
use super::pending::Count;
use crate::store::StoreError;

/// So many numbers are reserved at once.
const AHEAD: i64 = 1_000_000;

/// The owner of the connection that writes.
pub(super) struct Writer {
    pub(super) connection: SqliteConnection,
    pub(super) cache: Arc<Cache>,
    /// The greatest number that a row has.
    pub(super) newest: i64,
    /// No number beyond this one has been given away: see [`reserve`](Self::reserve).
    pub(super) reserved: i64,
    pub(super) pass: Pass,
    /// The use up to which a prune has everything flushed first.
    pub(super) prune_until: Option<i64>,
    /// Whether the connection is in a state that nobody knows.
    pub(super) is_lost: bool,
    pub(super) options: SqliteConnectOptions,
    pub(super) checkpoints: Checkpoints,
    pub(super) lock: Arc<Lock>,
}

impl Writer {
    /// Enters into the database that so many more numbers may be given away, now and then for many at once.
    ///
    /// A start goes on behind them. The rows alone could not tell it where: those that are listed by time have the time above
    /// their number, and after the clock went back the last of them is not the newest.
    pub(super) async fn reserve(&mut self, wanted: i64) -> Result<(), StoreError> {
        const RESERVE: &str = "UPDATE delivery_watermark SET reserved = ?";
        if self.newest + wanted > self.reserved {
            let reserved = self.newest + wanted + AHEAD;
            sqlx::query(RESERVE).bind(reserved).execute(&mut self.connection).await.map_err(store_error)?;
            self.reserved = reserved;
        }
        Ok(())
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// The pass that is under way.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// Counts to write, by descending number of their key: the next chunk is taken from the end.
    pub(super) counts: Vec<(i64, Count)>,
    /// Where the watermark moves when it ends; `None` between passes.
    pub(super) until: Option<i64>,
    /// Uses since it began.
    pub(super) waiting: usize,
    /// Uses since the last chunk.
    pub(super) uses: usize,
}

impl Pass {
    /// None, after a start that found so many uses above the watermark.
    pub(super) fn recovered(waiting: usize) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Uses were committed.
    pub(super) fn pace(&mut self, uses: usize) {
        (self.waiting, self.uses) = (self.waiting + uses, self.uses + uses);
    }

    pub(super) fn begin(&mut self, cache: &Cache, newest: i64) {
        self.counts = cache.pending.begin_flush();
        self.counts.reverse();
        (self.until, self.waiting, self.uses) = (Some(newest), 0, 0);
    }
}

/// Makes sure that no transaction is open. SQLite may have rolled back already (disk full), and says so.
pub(super) async fn rolled_back(connection: &mut SqliteConnection) -> bool {
    match connection.execute("ROLLBACK").await {
        Ok(_) => true,
        Err(error) => has_ended(&error),
    }
}

/// Whether a COMMIT or a ROLLBACK failed because no transaction was open.
pub(super) fn has_ended(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message().contains("no transaction is active"))
}
