//! Readers: beside the writer, each a single statement. Dropping one halfway leaves nothing behind.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, SqlitePool};

use super::error::store_error;
use super::rows::key;
use super::view::View;
use crate::key::{Key, KeyId, Standing};
use crate::store::rows;
use crate::store::statements::{self, BEFORE, CHAIN, PARKED, limit};
use crate::store::{KeyQuery, Page, ParkedLetter, StoreError, Use, UseId, page_size};

/// Searches row by row, newest first. The counts in rows may be behind, so keys with uses that are not folded are looked
/// at beside them.
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
        let folds = view.folds();
        let statement = sqlx::query(AssertSqlSafe(statements::keys(query)));
        // One with a time in its text will not come again.
        let statement = statement.persistent(query.standing.is_none());
        let statement = statement.bind(statements::below(before)).bind(limit(most));
        let statement = match query {
            KeyQuery { order: Some(order), .. } => statement.bind(order.id.as_str()).bind(order.source.as_str()),
            KeyQuery { email: Some(email), .. } => statement.bind(email.as_str()),
            KeyQuery { product: Some(product), .. } => statement.bind(product.get()),
            _ => statement,
        };
        let found = statement.fetch_all(readers).await.map_err(store_error)?;
        let more = found.len() == most;
        let mut keys: Vec<Key> = found.iter().map(|row| key(row, view)).collect::<Result<_, _>>()?;
        if matches!(query.standing, Some((Standing::Exhausted, _))) {
            // Those further down come with a later slice.
            let last = keys.last().map(Key::id).filter(|_| more);
            let here = |key: &Key| before.is_none_or(|id| key.id() < id) && last.is_none_or(|id| key.id() > id);
            keys.extend(view.unfolded().filter(here));
            keys.sort_unstable_by_key(|key| Reverse(key.id()));
            keys.dedup_by_key(|key| key.id());
        }
        // A fold between the row and the view could hide uses from both: read again.
        if view.folds() == folds {
            return Ok((keys, more));
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
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM delivery_letter WHERE state = 0 AND due_at <= ?)";
    sqlx::query_scalar(SQL).bind(now.timestamp_millis()).fetch_one(readers).await.map_err(store_error)
}

pub(super) async fn parked_letters(
    readers: &SqlitePool,
    view: &View,
    most: usize,
) -> Result<Vec<ParkedLetter>, StoreError> {
    let found = sqlx::query(PARKED).bind(limit(most)).fetch_all(readers).await.map_err(store_error)?;
    let parked = |row: &SqliteRow| rows::parked_letter(row, key(row, view)?);
    Ok(statements::readable(found.iter().map(parked)))
}

pub(super) async fn ping(readers: &SqlitePool) -> Result<(), StoreError> {
    sqlx::query("SELECT number FROM delivery_fold").fetch_one(readers).await.map(drop).map_err(store_error)
}
