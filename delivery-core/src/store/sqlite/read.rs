//! Readers: beside the writer, each a single statement. Dropping one halfway leaves nothing behind.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, SqlitePool};

use super::error::store_error;
use super::letters::bounds;
use super::rows::{current, unfolded};
use super::view::View;
use crate::key::{Key, KeyId};
use crate::store::rows;
use crate::store::statements::{self, BEFORE, CHAIN, PARKED, bind_search, limit};
use crate::store::{KeyQuery, Page, ParkedLetter, StoreError, Use, UseId, page_size};

/// A key is marked as used up with its last use.
const EXHAUSTED: &str = "k.exhausted = 1";

/// Searches row by row, newest first.
pub(super) async fn search(
    readers: &SqlitePool,
    view: &View,
    query: &KeyQuery,
) -> Result<Page<Key, KeyId>, StoreError> {
    statements::search(query, |before, limit| candidates(readers, view, query, before, limit)).await
}

async fn candidates(
    readers: &SqlitePool,
    view: &View,
    query: &KeyQuery,
    before: Option<KeyId>,
    most: usize,
) -> Result<(Vec<Key>, bool), StoreError> {
    loop {
        let sweeps = view.unfolded().sweeps();
        let statement = sqlx::query(AssertSqlSafe(statements::keys(query, EXHAUSTED)));
        // One with a time in its text will not come again.
        let statement = statement.persistent(query.standing.is_none());
        let statement = bind_search!(statement, query, before, most);
        let found = statement.fetch_all(readers).await.map_err(store_error)?;
        if let Some(uses) = unfolded(view, sweeps, &found)? {
            let keys = found.iter().zip(uses).map(|(row, uses)| current(view, row, uses));
            return Ok((keys.collect::<Result<_, _>>()?, found.len() == most));
        }
    }
}

/// Follows the chain of a key's uses, from `newest` on.
pub(super) async fn history(
    readers: &SqlitePool,
    newest: Option<i64>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    let size = page_size(most);
    let chain = sqlx::query(CHAIN).bind(newest).bind(limit(size + 1));
    statements::history_page(&chain.fetch_all(readers).await.map_err(store_error)?, size)
}

/// The use before another of the same key.
pub(super) async fn previous_use(readers: &SqlitePool, id: KeyId, before: UseId) -> Result<Option<i64>, StoreError> {
    let previous = sqlx::query_scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
    Ok(previous.fetch_optional(readers).await.map_err(store_error)?.flatten())
}

pub(super) async fn letters_due(readers: &SqlitePool, now: DateTime<Utc>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM delivery_letter WHERE state = 0 AND due_at <= ?) \
                       OR EXISTS (SELECT 1 FROM delivery_letter WHERE state = 0 AND due_at > ?) \
                       OR EXISTS (SELECT 1 FROM delivery_letter WHERE leased = 1 AND due_at > ?)";
    let [now, farthest, longest] = bounds(now);
    let due = sqlx::query_scalar(SQL).bind(now).bind(farthest).bind(longest);
    due.fetch_one(readers).await.map_err(store_error)
}

pub(super) async fn parked_letters(
    readers: &SqlitePool,
    view: &View,
    most: usize,
) -> Result<Vec<ParkedLetter>, StoreError> {
    loop {
        let sweeps = view.unfolded().sweeps();
        let found = sqlx::query(PARKED).bind(limit(most)).fetch_all(readers).await.map_err(store_error)?;
        if let Some(uses) = unfolded(view, sweeps, &found)? {
            let parked = |(row, uses)| rows::parked_letter(row, current(view, row, uses)?);
            return Ok(statements::readable(found.iter().zip(uses).map(parked)));
        }
    }
}

pub(super) async fn ping(readers: &SqlitePool) -> Result<(), StoreError> {
    sqlx::query("SELECT number FROM delivery_fold").fetch_one(readers).await.map(drop).map_err(store_error)
}
