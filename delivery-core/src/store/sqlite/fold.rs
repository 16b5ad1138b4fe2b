//! Folding: the counts of appended uses are added to their keys' rows, many at a time.
//!
//! A use costs one appended row when it happens. Folding touches each key's row once for all of its uses in the slice,
//! in the order of the rows, and moves the mark in the same transaction: a crash in between changes no count.

use std::collections::{HashMap, VecDeque};

use chrono::{DateTime, Utc};
use sqlx::Executor;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::store_error;
use super::rows::entry;
use super::view::View;
use super::write::{Scribe, json, rolled_back};
use crate::key::KeyId;
use crate::store::StoreError;
use crate::store::rows::{self, Columns};

/// Fold when so many uses wait: also what a start reads, some milliseconds' worth.
pub(super) const AT: usize = 16 * 1024;
/// Fold so many at once; commits wait meanwhile.
const SLICE: usize = 8 * 1024;
/// Forget so many uses in one commit.
const PRUNE: i64 = 10_000;

/// At the start: shows the keys with unfolded uses in view, and answers these uses' keys, oldest first.
pub(super) async fn recover(connection: &mut SqliteConnection, view: &View) -> Result<VecDeque<KeyId>, StoreError> {
    const SQL: &str = concat!(
        "SELECT t.uses, t.last, ",
        rows::key_columns!(),
        " FROM (SELECT key, count(*) AS uses, max(number) AS last FROM delivery_use \
                WHERE number > (SELECT number FROM delivery_fold) GROUP BY key) t \
          JOIN delivery_key k ON k.number = t.key"
    );
    let mut ids = HashMap::new();
    for row in sqlx::query(SQL).fetch_all(&mut *connection).await.map_err(store_error)? {
        let mut entry = entry(&row)?;
        let uses = u32::try_from(row.integer("uses")?).map_err(|_| StoreError::corrupt("a count out of range"))?;
        entry.key = entry.key.with_used(entry.key.used() + u64::from(uses));
        entry.unfolded = uses;
        entry.last_use = Some(row.integer("last")?);
        ids.insert(entry.number, entry.key.id());
        view.keys.insert(entry.key.id(), entry);
    }
    let uses =
        sqlx::query("SELECT key FROM delivery_use WHERE number > (SELECT number FROM delivery_fold) ORDER BY number")
            .fetch_all(connection)
            .await
            .map_err(store_error)?;
    let key = |row: &SqliteRow| row.integer("key").map(|number| ids.get(&number).copied());
    uses.iter().map(|row| key(row)?.ok_or(StoreError::corrupt("a use without its key"))).collect()
}

/// Folds everything.
pub(super) async fn all(scribe: &mut Scribe) -> Result<(), StoreError> {
    while !scribe.tail.is_empty() {
        slice(scribe).await?;
    }
    Ok(())
}

/// Folds the oldest uses.
pub(super) async fn slice(scribe: &mut Scribe) -> Result<(), StoreError> {
    let taken = scribe.tail.len().min(SLICE);
    let mut folded: HashMap<KeyId, u32> = HashMap::new();
    for id in scribe.tail.iter().take(taken) {
        *folded.entry(*id).or_default() += 1;
    }
    let mut entries = Vec::with_capacity(folded.len());
    for (id, uses) in folded {
        let entry = scribe.view.keys.peek(&id).ok_or(StoreError::corrupt("an unfolded key that is not in view"))?;
        entries.push((entry, uses));
    }
    entries.sort_unstable_by_key(|(entry, _)| entry.number);
    let counted: Vec<(i64, u64, Option<i64>)> = entries
        .iter()
        .map(|(entry, uses)| {
            let later = u64::from(entry.unfolded.saturating_sub(*uses));
            (entry.number, entry.key.used().saturating_sub(later), entry.last_use)
        })
        .collect();
    let folded = commit(&mut scribe.connection, &json(&counted)?, taken).await;
    if folded.is_err() {
        scribe.lost = !rolled_back(&mut scribe.connection).await;
    }
    folded?;
    scribe.tail.drain(..taken);
    // Before the first entry may be evicted, see `View::folds`.
    scribe.view.folded();
    for (mut entry, uses) in entries {
        entry.unfolded = entry.unfolded.saturating_sub(uses);
        scribe.view.keys.insert(entry.key.id(), entry);
    }
    Ok(())
}

async fn commit(connection: &mut SqliteConnection, counted: &str, uses: usize) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE delivery_key SET used = j.value->>1, last_use = j.value->>2 \
                       FROM json_each(?) j WHERE delivery_key.number = j.value->>0";
    connection.execute("BEGIN IMMEDIATE").await.map_err(store_error)?;
    let uses = i64::try_from(uses).unwrap_or(i64::MAX);
    sqlx::query(SQL).bind(counted).execute(&mut *connection).await.map_err(store_error)?;
    let mark = sqlx::query("UPDATE delivery_fold SET number = number + ?").bind(uses);
    mark.execute(&mut *connection).await.map_err(store_error)?;
    connection.execute("COMMIT").await.map(drop).map_err(store_error)
}

/// Forgets the uses before `before` among a slice of numbers from `from` on: how many, and where the next slice begins.
///
/// Only what is folded: a use of the same batch is not, and must still be counted after a crash.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    before: DateTime<Utc>,
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    const SLICE: &str = "SELECT min(number) AS first, (SELECT number FROM delivery_fold) AS folded FROM delivery_use \
                         WHERE number >= ?";
    const DELETE: &str = "DELETE FROM delivery_use WHERE number BETWEEN ? AND ? AND at < ?";
    let slice = sqlx::query(SLICE).bind(from).fetch_one(&mut *connection).await.map_err(store_error)?;
    let (first, folded) = (slice.integer_or_null("first")?, slice.integer("folded")?);
    let Some(first) = first.filter(|first| *first <= folded) else { return Ok((0, None)) };
    let last = first.saturating_add(PRUNE - 1).min(folded);
    let delete = sqlx::query(DELETE).bind(first).bind(last).bind(before.timestamp_millis());
    let pruned = delete.execute(connection).await.map_err(store_error)?.rows_affected();
    Ok((pruned, Some(last + 1).filter(|_| last < folded)))
}
