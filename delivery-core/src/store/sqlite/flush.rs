//! Flushing: writing [pending](super::pending) counts of uses from memory to `delivery_count`, many at a time.
//!
//! Each counted use appends one row to `delivery_use` when it happens. Once there are many such rows, a *pass* writes
//! the pending counts in the order of their keys, one chunk between two batches. When the pass ends, the *watermark*
//! moves to the row number that was the newest when the pass began. All uses up to the watermark are flushed.
//!
//! After a crash in the middle of a pass, recovery reads, for each key, the newest use above the watermark, and the
//! pass is repeated. Writing a chunk again does no harm: of two counts of a key, `delivery_count` keeps the one with
//! the later use.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteConnection;

use super::cache::Cache;
use super::error::store_error;
use super::json::json;
use super::pending::Count;
use super::writer::{Pass, Writer};
use crate::store::StoreError;
use crate::store::sql::rows::Columns;

/// The number of counted uses after which a [pass](self) begins. With ten million keys, a pass then writes about four
/// counts to each database page that it changes. After a crash, the next start reads at most about twice this number of
/// uses, which takes about a tenth of a second.
pub(super) const PASS_THRESHOLD: usize = 1 << 17;
/// The minimum number of keys in a chunk. The counts of a chunk are written by one statement, between two batches. This
/// delays the next batch by some milliseconds.
const CHUNK: usize = 1024;
/// The next chunk is due once this number of uses was counted since the last chunk, or since the pass began.
const PACE: usize = CHUNK / 2;
/// A chunk flushes this many keys for each use that was counted since the last chunk. With 2, a pass over all keys ends
/// long before the next pass should begin.
const AHEAD: usize = 2;
/// The number of keys in a chunk while a prune waits for the flush.
const DRAIN: usize = 4096;
/// The number of keys in a chunk when everything is flushed at shutdown. Such a chunk may be large, because no caller
/// waits for a commit any more.
const ALL: usize = 16 * 1024;

/// Loads the counts that are not flushed into the [pending](super::pending) counts. Called at the start and after the
/// connection was lost. Returns a [`Pass`] that has not begun, with the number of uses that are not flushed.
pub(super) async fn recover(connection: &mut SqliteConnection, cache: &Cache) -> Result<Pass, StoreError> {
    // The result is one JSON text, because a result row for each key would take ten times as long. SQLite takes `used`
    // from the row that has the `max(number)`.
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

/// Called before each batch. Begins a [pass](self) if no pass is under way and at least `at` uses were counted since
/// the last pass began. During a pass, writes the next chunk if it is due.
pub(super) async fn maintain(writer: &mut Writer, at: usize) -> Result<(), StoreError> {
    if writer.pass.until.is_none() {
        if writer.pass.waiting < at {
            return Ok(());
        }
        // Beginning a pass sorts the counts, which takes milliseconds. So this first yields to the callers whose uses
        // are committed, and they get their answers at once.
        tokio::task::yield_now().await;
        writer.begin_pass();
    }
    match writer.pass.uses {
        uses if uses >= PACE => chunk(writer, (AHEAD * uses).max(CHUNK)).await,
        _ => Ok(()),
    }
}

/// Flushes all pending counts.
pub(super) async fn all(writer: &mut Writer) -> Result<(), StoreError> {
    loop {
        if writer.pass.until.is_none() && writer.pass.waiting == 0 {
            return Ok(());
        }
        writer.begin_pass();
        chunk(writer, ALL).await?;
    }
}

/// Returns the number up to which a prune may delete uses that were made before `before`, once [`drain`] has flushed
/// the uses up to this number.
///
/// Only flushed uses may be deleted, because the count after an unflushed use is stored only in the record of that use.
/// If some of the uses to delete are not flushed, this is the number of the newest use. Otherwise it is the number up
/// to which uses are already flushed.
pub(super) async fn prunable(writer: &mut Writer, before: DateTime<Utc>) -> Result<i64, StoreError> {
    const HELD: &str = "SELECT EXISTS (SELECT 1 FROM delivery_use \
        WHERE number > (SELECT number FROM delivery_watermark) AND at < ?)";
    let held = sqlx::query_scalar(HELD).bind(before.timestamp_millis()).fetch_one(&mut writer.connection);
    let is_held: bool = held.await.map_err(store_error)?;
    if is_held { Ok(writer.newest) } else { watermark(&mut writer.connection).await }
}

/// Flushes the uses up to number `until`, one chunk in each call. Returns false after a chunk. Returns true, without
/// flushing anything, once all these uses are flushed.
pub(super) async fn drain(writer: &mut Writer, until: i64) -> Result<bool, StoreError> {
    if watermark(&mut writer.connection).await? >= until {
        return Ok(true);
    }
    writer.begin_pass();
    chunk(writer, DRAIN).await?;
    Ok(false)
}

/// Writes the counts of the next keys of the current pass, at most `most`. After the last keys, moves the watermark
/// (the number up to which uses are flushed) and ends the pass.
async fn chunk(writer: &mut Writer, most: usize) -> Result<(), StoreError> {
    const MOVE: &str = "UPDATE delivery_watermark SET number = ?";
    let pass = &mut writer.pass;
    let left = pass.counts.len().saturating_sub(most);
    let next = pass.counts.get(left..).unwrap_or_default().iter().rev();
    let rows: Vec<(i64, u64, i64)> = next.map(|(key, count)| (*key, count.used, count.last_use)).collect();
    write(&mut writer.connection, &rows).await?;
    pass.counts.truncate(left);
    pass.uses = 0;
    if left == 0 {
        // The watermark need not move in the same transaction in which the counts are written. After a crash between
        // these two transactions, the pass is repeated.
        let to = sqlx::query(MOVE).bind(pass.until);
        to.execute(&mut writer.connection).await.map_err(store_error)?;
        pass.until = None;
    }
    Ok(())
}

/// Writes `counts`. Each of them consists of the row number of a key, the key's count of uses, and the number of the
/// key's newest use. A stored count with a later use is not overwritten.
pub(super) async fn write(connection: &mut SqliteConnection, counts: &[(i64, u64, i64)]) -> Result<(), StoreError> {
    const UPSERT: &str = "INSERT INTO delivery_count (key, used, last_use) \
        SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true \
        ON CONFLICT (key) DO UPDATE SET used = excluded.used, last_use = excluded.last_use \
        WHERE excluded.last_use > last_use";
    if counts.is_empty() {
        return Ok(());
    }
    let upsert = sqlx::query(UPSERT).bind(json(&counts)?);
    upsert.execute(connection).await.map(drop).map_err(store_error)
}

/// Returns the number up to which uses are flushed.
async fn watermark(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let number = sqlx::query_scalar("SELECT number FROM delivery_watermark").fetch_one(connection);
    number.await.map_err(store_error)
}

#[cfg(test)]
mod tests;
