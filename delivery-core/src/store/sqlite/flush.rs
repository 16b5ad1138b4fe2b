//! Flushing: pending counts are written to `delivery_count`, many at a time.
//!
//! A counted use costs one appended row when it happens. Once there are many, a pass writes the pending counts in the order of
//! their keys, a chunk between two batches. A chunk is an idempotent upsert: of two counts of a key, the one with
//! the later use stays. When the pass ends, the watermark moves to the newest number that there was when it began. A crash in the
//! middle repeats the pass: recovery reads the newest use of each key above the watermark.

use std::collections::HashMap;

use sqlx::sqlite::SqliteConnection;

use super::cache::Cache;
use super::error::store_error;
use super::json::json;
use super::pending::Count;
use super::writer::{Pass, Writer};
use crate::store::StoreError;
use crate::store::sql::rows::Columns;

/// A pass begins after so many uses. Of ten million keys' counts, a page then serves four of them. A start after a crash reads
/// the uses of two passes at most, in some tenth of a second.
pub(super) const PASS_THRESHOLD: usize = 1 << 17;
/// Keys in a chunk while commits wait: some milliseconds.
const CHUNK: usize = 1024;
/// After so many uses the next chunk is due.
const PACE: usize = CHUNK / 2;
/// Keys in a chunk for each use since the last one: a pass ends long before the next one should begin.
const AHEAD: usize = 2;
/// Keys in a chunk when nobody waits.
const ALL: usize = 16 * 1024;

/// At the start: the counts that are not flushed, and a new pass.
pub(super) async fn recover(connection: &mut SqliteConnection, cache: &Cache) -> Result<Pass, StoreError> {
    // In one text: a row for each would take ten times as long. Beside max(), `used` is that of the same row.
    const COUNTS: &str = "SELECT json_group_array(json_array(key, used, last_use, uses)) AS counts FROM ( \
        SELECT key, used, max(number) AS last_use, count(*) AS uses FROM delivery_use \
        WHERE number > (SELECT number FROM delivery_watermark) GROUP BY key)";
    let row = sqlx::query(COUNTS).fetch_one(connection).await.map_err(store_error)?;
    let counts: Vec<(i64, u64, i64, usize)> = serde_json::from_str(row.text("counts")?)
        .map_err(|error| StoreError::corrupt_because("counts that cannot be read", error))?;
    let waiting = counts.iter().map(|(.., uses)| uses).sum();
    let counts = counts.into_iter().map(|(key, used, last_use, _)| (key, Count { used, last_use }));
    cache.pending.reset(counts.collect::<HashMap<_, _>>());
    Ok(Pass::recovered(waiting))
}

/// After a batch: begins a pass after `at` uses, and writes its next chunk when that is due.
pub(super) async fn maintain(writer: &mut Writer, at: usize) -> Result<(), StoreError> {
    if writer.pass.until.is_none() {
        if writer.pass.waiting < at {
            return Ok(());
        }
        // Sorting takes milliseconds: those whose uses are committed are answered before.
        tokio::task::yield_now().await;
        let newest = writer.newest;
        writer.pass.begin(&writer.cache, newest);
    }
    match writer.pass.uses {
        uses if uses >= PACE => chunk(writer, (AHEAD * uses).max(CHUNK)).await,
        _ => Ok(()),
    }
}

/// Flushes everything.
pub(super) async fn all(writer: &mut Writer) -> Result<(), StoreError> {
    loop {
        if writer.pass.until.is_none() {
            if writer.pass.waiting == 0 {
                return Ok(());
            }
            let newest = writer.newest;
            writer.pass.begin(&writer.cache, newest);
        }
        chunk(writer, ALL).await?;
    }
}

/// Makes progress until the watermark is at `until` or above, and returns whether it is.
pub(super) async fn drain(writer: &mut Writer, until: i64, most: usize) -> Result<bool, StoreError> {
    if watermark(&mut writer.connection).await? >= until {
        return Ok(true);
    }
    if writer.pass.until.is_none() {
        let newest = writer.newest;
        writer.pass.begin(&writer.cache, newest);
    }
    chunk(writer, most).await?;
    Ok(false)
}

/// Writes the next keys of the pass that is under way, and at its end moves the watermark.
async fn chunk(writer: &mut Writer, most: usize) -> Result<(), StoreError> {
    const UPSERT: &str = "INSERT INTO delivery_count (key, used, last_use) \
        SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true \
        ON CONFLICT (key) DO UPDATE SET used = excluded.used, last_use = excluded.last_use \
        WHERE excluded.last_use > last_use";
    const MOVE: &str = "UPDATE delivery_watermark SET number = ?";
    let pass = &mut writer.pass;
    let left = pass.counts.len().saturating_sub(most);
    let next = pass.counts.get(left..).unwrap_or_default().iter().rev();
    let rows: Vec<(i64, u64, i64)> = next.map(|(key, count)| (*key, count.used, count.last_use)).collect();
    if !rows.is_empty() {
        let upsert = sqlx::query(UPSERT).bind(json(&rows)?);
        upsert.execute(&mut writer.connection).await.map_err(store_error)?;
    }
    pass.counts.truncate(left);
    pass.uses = 0;
    if left == 0 {
        // Two statements: a crash between them repeats the pass.
        let to = sqlx::query(MOVE).bind(pass.until);
        to.execute(&mut writer.connection).await.map_err(store_error)?;
        pass.until = None;
    }
    Ok(())
}

/// Uses up to this number are flushed.
pub(super) async fn watermark(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let number = sqlx::query_scalar("SELECT number FROM delivery_watermark").fetch_one(connection);
    number.await.map_err(store_error)
}

#[cfg(test)]
mod tests;
