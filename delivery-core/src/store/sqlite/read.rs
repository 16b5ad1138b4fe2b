//! Readers: beside the writer, each a single statement. Dropping one halfway leaves nothing behind.

use chrono::{DateTime, Utc};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteRow;

use super::error::store_error;
use super::rows::{entry, key};
use super::view::{Entry, View};
use crate::key::{Key, KeyId};
use crate::store::rows;
use crate::store::statements::{self, BEFORE, CHAIN, KEY, PARKED, limit};
use crate::store::{KeyQuery, Page, ParkedLetter, StoreError, Use, UseId, page_size};

/// A key: from the view, or from its row, which then tells all (see [`View`]).
pub(super) async fn find(readers: &SqlitePool, view: &View, id: KeyId) -> Result<Option<Entry>, StoreError> {
    if let Some(entry) = view.keys.get(&id) {
        return Ok(Some(entry));
    }
    let place = match view.keys.get_value_or_guard_async(&id).await {
        Ok(entry) => return Ok(Some(entry)),
        Err(place) => place,
    };
    let row = sqlx::query(KEY).bind(id.as_bytes().as_slice()).fetch_optional(readers).await.map_err(store_error)?;
    let Some(row) = row else { return Ok(None) };
    let entry = entry(&row)?;
    match place.insert(entry.clone()) {
        Ok(()) => Ok(Some(entry)),
        // The writer changed the key meanwhile: its entry is the newer one.
        Err(_) => Ok(Some(view.keys.get(&id).unwrap_or(entry))),
    }
}

/// Searches row by row, newest first. Standing depends on counts that may not be folded, so it is judged key by key.
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
) -> Result<Vec<Key>, StoreError> {
    loop {
        let folds = view.folds();
        let statement = sqlx::query(statements::keys(query)).bind(statements::below(before)).bind(limit(most));
        let statement = match query {
            KeyQuery { order: Some(order), .. } => statement.bind(order.id.as_str()).bind(order.source.as_str()),
            KeyQuery { email: Some(email), .. } => statement.bind(email.as_str()),
            KeyQuery { product: Some(product), .. } => statement.bind(product.get()),
            _ => statement,
        };
        let found = statement.fetch_all(readers).await.map_err(store_error)?;
        let keys: Vec<Key> = found.iter().map(|row| key(row, view)).collect::<Result<_, _>>()?;
        // A fold between the row and the view could hide uses from both: read again.
        if view.folds() == folds {
            return Ok(keys);
        }
    }
}

/// Follows the chain of a key's uses.
pub(super) async fn history(
    readers: &SqlitePool,
    view: &View,
    id: KeyId,
    before: Option<UseId>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    let newest = match before {
        None => find(readers, view, id).await?.and_then(|entry| entry.last_use),
        Some(before) => {
            let previous = sqlx::query_scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
            previous.fetch_optional(readers).await.map_err(store_error)?.flatten()
        }
    };
    let size = page_size(most);
    let chain = sqlx::query(CHAIN).bind::<Option<i64>>(newest).bind(limit(size + 1));
    statements::history_page(&chain.fetch_all(readers).await.map_err(store_error)?, size)
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
