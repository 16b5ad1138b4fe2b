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

/// The number of consecutive use numbers that a prune checks in one commit. Customers' operations wait for this commit.
const PRUNE: i64 = 10_000;
/// [`prune`] returns this as the next `from` while it still has to flush counts.
const FLUSHING: i64 = -1;
/// The number of keys whose counts are flushed in one commit before a prune may delete.
const FLUSH: usize = 4096;

/// Returns a page of a key's uses, newest first. Each use record contains the number of the key's previous use. The
/// page is read by following this chain, starting with the use number `newest`. If `newest` is `None`, the page is
/// empty.
pub(super) async fn history(
    readers: &SqlitePool,
    newest: Option<i64>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    let size = page_size(most);
    let chain = sqlx::query(CHAIN).bind(newest).bind(limit(size + 1));
    statements::history_page(&chain.fetch_all(readers).await.map_err(store_error)?, size)
}

/// Returns the number of the key's use that precedes the use `before`. Returns `None` if `before` is the key's first
/// use, or is not a use of this key.
pub(super) async fn previous_use(readers: &SqlitePool, id: KeyId, before: UseId) -> Result<Option<i64>, StoreError> {
    let previous = sqlx::query_scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
    Ok(previous.fetch_optional(readers).await.map_err(store_error)?.flatten())
}

/// Looks at the next [`PRUNE`] use numbers, from number `from` on, and deletes the uses that were made before `before`.
/// Returns how many uses it deleted, and the `from` of the next call; `None` if no further call is necessary.
///
/// Only flushed uses may be deleted, because the count after an unflushed use is stored only in the record of that use.
/// In the first call, `from` is 0. If some of the uses to delete are not flushed at that time, the first call and the
/// next calls only flush, one chunk each. Deleting begins once all uses that existed at the first call are flushed.
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
