//! Removing erased data from the write-ahead log.

use std::time::Duration;

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor};

use super::SqliteStore;
use super::error::store_error;
use super::open::BUSY;
use crate::store::StoreError;
use crate::store::sql::rows::Columns;

/// How many times emptying the log is tried. With a pause of [`READING`] after each try, this takes about three seconds
/// in total.
const ATTEMPTS: u32 = 60;
const READING: Duration = Duration::from_millis(50);

impl SqliteStore {
    /// Removes the old contents of changed pages from the file and its log, so that erased data is gone. Retries if
    /// another connection still reads the old contents. Other writes can run between two tries.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] if another program keeps reading the old pages.
    pub(super) async fn truncate_wal(&self) -> Result<(), StoreError> {
        let writer = self.writer()?;
        for _ in 0..ATTEMPTS {
            if writer.run(move |writer| Box::pin(async move { truncate_wal(&mut writer.connection).await })).await? {
                return Ok(());
            }
            tokio::time::sleep(READING).await;
        }
        Err(StoreError::unavailable(
            "the person is forgotten, but another program reads the file, whose log has the old pages",
        ))
    }
}

/// Copies the write-ahead log into the file and empties the log. Before that, both contain old pages with data that was
/// erased. If another connection still reads the old pages, such as a backup or a program that copies the log, this
/// returns false without waiting.
async fn truncate_wal(connection: &mut SqliteConnection) -> Result<bool, StoreError> {
    connection.execute("PRAGMA busy_timeout = 0").await.map_err(store_error)?;
    let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await;
    let patience = format!("PRAGMA busy_timeout = {}", BUSY.as_millis());
    connection.execute(AssertSqlSafe(patience)).await.map_err(store_error)?;
    Ok(checkpoint.map_err(store_error)?.integer("busy")? == 0)
}
