//! Folding: the counts of appended uses are added to those of their keys, many at a time.
//!
//! A use costs one appended row when it happens. When many wait, a sweep goes through their keys in the order of the
//! counts, which are so small that most of their pages serve many keys; each slice of it is a short transaction between
//! two batches, and moves the mark along: a crash in between changes no count.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::unfolded::{Mark, Uses};
use super::view::View;
use super::write::{Scribe, json, rolled_back};
use crate::store::StoreError;
use crate::store::rows::Columns;

/// A sweep begins when so many uses wait: of ten million keys' counts, a page then serves four of them. A start after a
/// crash reads twice as many at most, in some tenth of a second.
pub(super) const AT: usize = 1 << 17;
/// Keys in a slice while commits wait: some milliseconds.
const SLICE: usize = 1024;
/// After so many uses the next slice is due.
const PACE: usize = SLICE / 2;
/// Keys in a slice for each use since the last one: a sweep ends long before the next one should begin.
const AHEAD: usize = 2;
/// Keys in a slice when a prune waits.
const PART: usize = 4 * SLICE;
/// Keys in a slice when nobody waits.
const ALL: usize = 16 * 1024;
/// Forget so many uses in one commit.
const PRUNE: i64 = 10_000;

/// At the start: the uses that are not folded.
pub(super) async fn recover(connection: &mut SqliteConnection, view: &View) -> Result<(), StoreError> {
    const MARK: &str = "SELECT number, until, through, \
        max(number, coalesce((SELECT max(number) FROM delivery_use), 0)) AS newest FROM delivery_fold";
    // In one text: a row for each would take ten times as long.
    const USES: &str = "SELECT json_group_array(json_array(fresh, key, uses, last)) AS uses FROM ( \
        SELECT u.number > f.until AS fresh, u.key, count(*) AS uses, max(u.number) AS last \
        FROM delivery_fold f JOIN delivery_use u ON u.number > f.number \
        WHERE u.number > f.until OR u.key > f.through GROUP BY 1, 2 ORDER BY 1, 2)";
    let row = sqlx::query(MARK).fetch_one(&mut *connection).await.map_err(store_error)?;
    let mark = Mark { number: row.integer("number")?, until: row.integer("until")?, through: row.integer("through")? };
    let newest = row.integer("newest")?;
    let row = sqlx::query(USES).fetch_one(connection).await.map_err(store_error)?;
    let uses: Vec<(u8, i64, u32, i64)> = serde_json::from_str(row.text("uses")?)
        .map_err(|error| StoreError::corrupt_because("uses that do not add up", error))?;
    let (mut sweep, mut fresh) = (Vec::new(), HashMap::new());
    for (is_fresh, key, count, last) in uses {
        match is_fresh {
            0 => sweep.push((key, Uses { count, last })),
            _ => drop(fresh.insert(key, Uses { count, last })),
        }
    }
    view.unfolded().restore(mark, newest, sweep, fresh);
    Ok(())
}

/// After a batch: begins a sweep when `at` uses wait, and folds its next slice when that is due.
pub(super) async fn keep_up(scribe: &mut Scribe, at: usize) -> Result<(), StoreError> {
    let begins = {
        let unfolded = scribe.view.unfolded();
        !unfolded.sweeping() && unfolded.waiting() >= at
    };
    if begins {
        // Sorting takes milliseconds: those whose uses are committed are answered before.
        tokio::task::yield_now().await;
        scribe.view.unfolded().begin();
    }
    let due = {
        let unfolded = scribe.view.unfolded();
        if !unfolded.sweeping() || unfolded.unpaced() < PACE.min(at) {
            return Ok(());
        }
        AHEAD * unfolded.unpaced()
    };
    slice(scribe, SLICE.max(due)).await
}

/// Folds everything.
pub(super) async fn all(scribe: &mut Scribe) -> Result<(), StoreError> {
    loop {
        {
            let mut unfolded = scribe.view.unfolded();
            match (unfolded.sweeping(), unfolded.waiting()) {
                (true, _) => {}
                (false, 0) => return Ok(()),
                (false, _) => unfolded.begin(),
            }
        }
        slice(scribe, ALL).await?;
    }
}

/// Before a prune: whether the uses before `before` are folded, of those that there were when it was first asked. If not,
/// some of them now are, so that no commit waits for all.
pub(super) async fn make_way(scribe: &mut Scribe, before: DateTime<Utc>) -> Result<bool, StoreError> {
    let until = match scribe.fold_until {
        Some(until) => until,
        None if holds_back(&mut scribe.connection, before).await? => *scribe.fold_until.insert(scribe.last_use),
        None => return Ok(true),
    };
    {
        let mut unfolded = scribe.view.unfolded();
        if unfolded.mark().number >= until {
            scribe.fold_until = None;
            return Ok(true);
        }
        if !unfolded.sweeping() {
            unfolded.begin();
        }
    }
    slice(scribe, PART).await?;
    Ok(false)
}

/// Folds the next keys of the sweep that is under way.
async fn slice(scribe: &mut Scribe, most: usize) -> Result<(), StoreError> {
    let (keys, mark) = scribe.view.unfolded().slice(most);
    let counts: Vec<(i64, u32, i64)> = keys.iter().map(|(key, uses)| (*key, uses.count, uses.last)).collect();
    let committed = commit(&mut scribe.connection, &json(&counts)?, mark).await;
    if committed.is_err() {
        scribe.lost |= !rolled_back(&mut scribe.connection).await;
    }
    committed?;
    scribe.view.unfolded().folded(keys.len(), mark);
    Ok(())
}

async fn commit(connection: &mut SqliteConnection, counts: &str, mark: Mark) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO delivery_slice VALUES (?, ?, ?, ?)";
    let fold = sqlx::query(SQL).bind(counts).bind(mark.number).bind(mark.until).bind(mark.through);
    fold.execute(connection).await.map(drop).map_err(store_error)
}

/// Counts every use, by the database alone: for a file that nobody serves.
#[cfg(any(feature = "postgres", test))]
pub(super) async fn settle(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    use sqlx::Executor;

    const FOLD: [&str; 5] = [
        "BEGIN IMMEDIATE",
        "INSERT INTO delivery_count (key, used, last_use) \
         SELECT u.key, count(*), max(u.number) FROM delivery_fold f JOIN delivery_use u ON u.number > f.number \
         WHERE u.number > f.until OR u.key > f.through GROUP BY u.key \
         ON CONFLICT (key) DO UPDATE SET used = used + excluded.used, last_use = excluded.last_use",
        "UPDATE delivery_fold SET number = max(number, coalesce((SELECT max(number) FROM delivery_use), 0))",
        "UPDATE delivery_fold SET until = number, through = 0",
        "COMMIT",
    ];
    for statement in FOLD {
        connection.execute(statement).await.map_err(store_error)?;
    }
    Ok(())
}

/// Whether uses before `before` wait to be folded.
async fn holds_back(connection: &mut SqliteConnection, before: DateTime<Utc>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM delivery_fold f JOIN delivery_use u ON u.number > f.number \
                       WHERE u.at < ?)";
    sqlx::query_scalar(SQL).bind(before.timestamp_millis()).fetch_one(connection).await.map_err(store_error)
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

#[cfg(test)]
mod tests;
