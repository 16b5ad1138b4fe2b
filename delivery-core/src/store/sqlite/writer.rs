//! The writer: the connection that writes, and the state that belongs to this connection.

use std::fmt;
use std::sync::Arc;

use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::cache::Cache;
use super::checkpoint::Checkpoints;
use super::error::store_error;
use super::load;
use super::lock::Lock;
use super::pending::Count;
use crate::store::StoreError;
use crate::store::sql::session::Stale;

/// How many row numbers a reservation takes in addition to the numbers that are needed at the moment.
const AHEAD: i64 = 1_000_000;

/// The owner of the connection that writes.
pub(super) struct Writer {
    pub(super) connection: SqliteConnection,
    pub(super) cache: Arc<Cache>,
    /// The highest row number that is in use. After a start, the highest number that was reserved before the start.
    pub(super) newest: i64,
    /// The highest number reserved in the database: see [`reserve`](Self::reserve).
    pub(super) reserved: i64,
    pub(super) pass: Pass,
    /// Whether the state of the connection is unknown. If so, the next batch first opens a new connection.
    pub(super) is_lost: bool,
    pub(super) options: SqliteConnectOptions,
    pub(super) checkpoints: Checkpoints,
    pub(super) lock: Arc<Lock>,
}

impl Writer {
    /// Makes sure that the next `wanted` row numbers are reserved in the database. If they are not, reserves them and
    /// [`AHEAD`] more, so that most calls write nothing.
    ///
    /// After a restart, numbering continues after the reserved numbers, because the rows do not show which number was
    /// used last. In tables that are listed by time, a row number has the time in its upper bits. If the clock was set
    /// back, the highest row number of such a table is not the one that was used last.
    pub(super) async fn reserve(&mut self, wanted: i64) -> Result<(), StoreError> {
        const RESERVE: &str = "UPDATE delivery_watermark SET reserved = ?";
        if self.newest + wanted > self.reserved {
            let reserved = self.newest + wanted + AHEAD;
            sqlx::query(RESERVE).bind(reserved).execute(&mut self.connection).await.map_err(store_error)?;
            self.reserved = reserved;
        }
        Ok(())
    }

    /// Begins a [pass](super::flush), unless one is under way.
    pub(super) fn begin_pass(&mut self) {
        if self.pass.until.is_none() {
            self.pass.begin(&self.cache, self.newest);
        }
    }

    /// Called after a commit: replaces cached data that the commit has outdated.
    pub(super) async fn refresh(&mut self, stale: Vec<Stale>) {
        for stale in stale {
            match stale {
                Stale::Products => self.cache.products.clear(),
                Stale::Keys(keys) => {
                    for id in &keys {
                        self.cache.keys.remove(id);
                    }
                    // The writes are already committed, so an error here must not make their operation fail. After an
                    // error, the keys are read when they are next needed.
                    for row in load::keys(&mut self.connection, &self.cache, &keys).await.unwrap_or_default() {
                        self.cache.keys.insert(row.key.id(), row);
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// The state of the current pass of [`flush`](super::flush), which writes pending counts in chunks.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The counts that are still to be written, sorted by descending key number. The next chunk is taken from the end.
    pub(super) counts: Vec<(i64, Count)>,
    /// The use number up to which all uses are flushed when the pass ends; `None` between passes.
    pub(super) until: Option<i64>,
    /// The number of uses that were counted since the last pass began.
    pub(super) waiting: usize,
    /// The number of uses that were counted since the last chunk was written or the pass began.
    pub(super) uses: usize,
}

impl Pass {
    /// Returns the state after a start: no pass has begun, and `waiting` uses are not flushed yet.
    pub(super) fn recovered(waiting: usize) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Counts `uses`, the number of uses that a batch has committed, so that the flush keeps pace with them.
    pub(super) fn pace(&mut self, uses: usize) {
        (self.waiting, self.uses) = (self.waiting + uses, self.uses + uses);
    }

    fn begin(&mut self, cache: &Cache, newest: i64) {
        self.counts = cache.pending.begin_flush();
        self.counts.reverse();
        (self.until, self.waiting, self.uses) = (Some(newest), 0, 0);
    }
}

/// Rolls the transaction back. Returns true if no transaction is open afterwards, even if SQLite has already rolled it
/// back by itself, for example because the disk was full.
pub(super) async fn rolled_back(connection: &mut SqliteConnection) -> bool {
    match connection.execute("ROLLBACK").await {
        Ok(_) => true,
        Err(error) => has_ended(&error),
    }
}

/// Returns whether a COMMIT or a ROLLBACK failed because no transaction was open.
pub(super) fn has_ended(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message().contains("no transaction is active"))
}
