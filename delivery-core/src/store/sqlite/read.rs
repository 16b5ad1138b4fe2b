//! Readers: beside the writer, each a single statement. Dropping one halfway leaves nothing behind.

use chrono::{DateTime, Utc};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteRow;

use super::error::store_error;
use super::rows::{entry, key};
use super::view::{Entry, View};
use crate::key::{Key, KeyId};
use crate::store::rows::{self, Columns};
use crate::store::{KeyQuery, Page, ParkedLetter, StoreError, Use, UseId, page_size};

const STANDING_SLICE: usize = 1000;

/// A key: from the view, or from its row, which then tells all (see [`View`]).
pub(super) async fn find(readers: &SqlitePool, view: &View, id: KeyId) -> Result<Option<Entry>, StoreError> {
    const SQL: &str = concat!("SELECT ", rows::key_columns!(), " FROM delivery_key k WHERE k.id = ?");
    if let Some(entry) = view.keys.get(&id) {
        return Ok(Some(entry));
    }
    let place = match view.keys.get_value_or_guard_async(&id).await {
        Ok(entry) => return Ok(Some(entry)),
        Err(place) => place,
    };
    let row = sqlx::query(SQL).bind(id.as_bytes().as_slice()).fetch_optional(readers).await.map_err(store_error)?;
    let Some(row) = row else { return Ok(None) };
    let entry = entry(&row)?;
    match place.insert(entry.clone()) {
        Ok(()) => Ok(Some(entry)),
        // The writer changed the key meanwhile: its entry is the newer one.
        Err(_) => Ok(Some(view.keys.get(&id).unwrap_or(entry))),
    }
}

/// Searches row by row, newest first. Standing depends on counts that may not be folded, so it is judged here.
pub(super) async fn search(
    readers: &SqlitePool,
    view: &View,
    query: &KeyQuery,
) -> Result<Page<Key, KeyId>, StoreError> {
    let size = query.page_size();
    let mut items = Vec::new();
    let mut before = query.before;
    // Standing is judged here, key by key: a rare one must not cost a query for every few rows.
    let slice = if query.standing.is_some() { (size + 1).max(STANDING_SLICE) } else { size + 1 };
    loop {
        let found = candidates(readers, view, query, before, slice).await?;
        let last = found.last().map(Key::id);
        let exhausted = found.len() < slice;
        items.extend(found.into_iter().filter(|key| query.fits(key)));
        if exhausted || items.len() > size {
            break;
        }
        before = last;
    }
    let more = items.len() > size;
    items.truncate(size);
    let next = items.last().map(Key::id).filter(|_| more);
    Ok(Page { items, next })
}

async fn candidates(
    readers: &SqlitePool,
    view: &View,
    query: &KeyQuery,
    before: Option<KeyId>,
    limit: usize,
) -> Result<Vec<Key>, StoreError> {
    macro_rules! search {
        ($condition:literal) => {
            concat!(
                "SELECT ",
                rows::key_columns!(),
                " FROM delivery_key k WHERE (?1 IS NULL OR k.id < ?1) AND ",
                $condition,
                " ORDER BY k.id DESC LIMIT ?2"
            )
        };
    }
    // One condition picks the index; `KeyQuery::fits` judges the rest.
    let (sql, order) = match query {
        KeyQuery { order: Some(order), .. } => (search!("k.order_id = ?3 AND k.source = ?4"), Some(order)),
        KeyQuery { email: Some(_), .. } => (search!("k.email = ?3"), None),
        KeyQuery { product: Some(_), .. } => (search!("k.product = ?3"), None),
        _ => (search!("true"), None),
    };
    loop {
        let folds = view.folds();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = sqlx::query(sql).bind(before.map(|id| id.as_bytes().to_vec())).bind(limit);
        statement = match (order, &query.email, query.product) {
            (Some(order), ..) => statement.bind(order.id.as_str()).bind(order.source.as_str()),
            (None, Some(email), _) => statement.bind(email.as_str()),
            (None, None, Some(product)) => statement.bind(product.get()),
            (None, None, None) => statement,
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
    limit: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    const CHAIN: &str = "WITH RECURSIVE chain (number, at, previous) AS ( \
            SELECT number, at, previous FROM delivery_use WHERE number = ?1 \
            UNION ALL \
            SELECT u.number, u.at, u.previous FROM chain c JOIN delivery_use u ON u.number = c.previous) \
        SELECT number, at FROM chain LIMIT ?2";
    const BEFORE: &str = "SELECT u.previous FROM delivery_use u JOIN delivery_key k ON k.number = u.key \
                          WHERE u.number = ? AND k.id = ?";
    let newest = match before {
        None => find(readers, view, id).await?.and_then(|entry| entry.last_use),
        Some(before) => {
            let previous = sqlx::query_scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
            previous.fetch_optional(readers).await.map_err(store_error)?.flatten()
        }
    };
    let size = page_size(limit);
    let chain = sqlx::query(CHAIN).bind::<Option<i64>>(newest).bind(i64::try_from(size + 1).unwrap_or(i64::MAX));
    let mut found = chain.fetch_all(readers).await.map_err(store_error)?;
    let more = found.len() > size;
    found.truncate(size);
    let number = |row: &SqliteRow| row.integer("number").map(UseId::new);
    let next = found.last().filter(|_| more).map(number).transpose()?;
    let at = |row: &SqliteRow| rows::milliseconds(row.integer("at")?).map(|at| Use { at });
    Ok(Page { items: found.iter().map(at).collect::<Result<_, _>>()?, next })
}

pub(super) async fn letters_due(readers: &SqlitePool, now: DateTime<Utc>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM delivery_letter WHERE state = 0 AND due_at <= ?)";
    sqlx::query_scalar(SQL).bind(now.timestamp_millis()).fetch_one(readers).await.map_err(store_error)
}

pub(super) async fn parked_letters(
    readers: &SqlitePool,
    view: &View,
    limit: usize,
) -> Result<Vec<ParkedLetter>, StoreError> {
    const SQL: &str = concat!(
        "SELECT l.number AS letter, l.attempts, l.due_at, coalesce(l.reason, '') AS reason, ",
        rows::key_columns!(),
        " FROM delivery_letter l JOIN delivery_key k ON k.number = l.key WHERE l.state = 2 ORDER BY l.number LIMIT ?"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = sqlx::query(SQL).bind(limit).fetch_all(readers).await.map_err(store_error)?;
    let parked = |row: &SqliteRow| rows::parked_letter(row, key(row, view)?);
    // One that cannot be read hides no other.
    Ok(found.iter().filter_map(|row| parked(row).inspect_err(unreadable).ok()).collect())
}

pub(super) async fn ping(readers: &SqlitePool) -> Result<(), StoreError> {
    sqlx::query("SELECT number FROM delivery_fold").fetch_one(readers).await.map(drop).map_err(store_error)
}

fn unreadable(error: &StoreError) {
    tracing::error!(error = error as &dyn std::error::Error, "a parked letter cannot be read");
}
