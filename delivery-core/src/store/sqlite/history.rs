//! Use records: reading and pruning them.

use chrono::{DateTime, Utc};
use sqlx::SqlitePool;

use super::error::store_error;
use super::flush;
use super::writer::Writer;
use crate::key::KeyId;
use crate::store::sql::rows::Columns;
use crate::store::sql::statements::{self, BEFORE, CHAIN, limit};
use crate::store::{Page, StoreError, Use, UseId, page_size};

/// Use numbers that a prune looks at in one commit.
const PRUNE: i64 = 10_000;
/// The `from` with which a prune continues while it still has to flush.
const FLUSHING: i64 = -1;
/// Keys flushed in one commit while a prune waits.
const FLUSH: usize = 4096;

/// Returns a page of a key's uses by following their chain, from use number `newest` on.
pub(super) async fn history(
    readers: &SqlitePool,
    newest: Option<i64>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    let size = page_size(most);
    let chain = sqlx::query(CHAIN).bind(newest).bind(limit(size + 1));
    statements::history_page(&chain.fetch_all(readers).await.map_err(store_error)?, size)
}

/// Returns the number of the use before `before` of the same key.
pub(super) async fn previous_use(readers: &SqlitePool, id: KeyId, before: UseId) -> Result<Option<i64>, StoreError> {
    let previous = sqlx::query_scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
    Ok(previous.fetch_optional(readers).await.map_err(store_error)?.flatten())
}

/// Deletes the uses made before `before` among the next [`PRUNE`] numbers, from number `from` on. Returns how many it
/// deleted and the `from` of the next call.
///
/// Only flushed uses may be deleted: the others are the redo log. If some of these others are old, the first calls only
/// flush, a chunk each, until everything that was there at the first call (`from` 0) is flushed.
pub(super) async fn prune(
    writer: &mut Writer,
    before: DateTime<Utc>,
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    const PART: &str = "SELECT min(number) AS first FROM delivery_use WHERE number >= ?";
    const DELETE: &str = "DELETE FROM delivery_use WHERE number BETWEEN ? AND ? AND at < ?";
    if from <= 0 && !may_prune(writer, before, from == 0).await? {
        return Ok((0, Some(FLUSHING)));
    }
    let watermark = flush::watermark(&mut writer.connection).await?;
    let part = sqlx::query(PART).bind(from).fetch_one(&mut writer.connection).await.map_err(store_error)?;
    let Some(first) = part.integer_or_null("first")?.filter(|first| *first <= watermark) else {
        return Ok((0, None));
    };
    let last = first.saturating_add(PRUNE - 1).min(watermark);
    let delete = sqlx::query(DELETE).bind(first).bind(last).bind(before.timestamp_millis());
    let pruned = delete.execute(&mut writer.connection).await.map_err(store_error)?.rows_affected();
    Ok((pruned, Some(last + 1).filter(|_| last < watermark)))
}

async fn may_prune(writer: &mut Writer, before: DateTime<Utc>, begins: bool) -> Result<bool, StoreError> {
    const HELD: &str = "SELECT EXISTS (SELECT 1 FROM delivery_use \
        WHERE number > (SELECT number FROM delivery_watermark) AND at < ?)";
    let until = if let Some(until) = writer.prune_until.filter(|_| !begins) {
        until
    } else {
        let held = sqlx::query_scalar(HELD).bind(before.timestamp_millis()).fetch_one(&mut writer.connection);
        if !held.await.map_err(store_error)? {
            return Ok(true);
        }
        *writer.prune_until.insert(writer.newest)
    };
    let flushed = flush::drain(writer, until, FLUSH).await?;
    if flushed {
        writer.prune_until = None;
    }
    Ok(flushed)
}
