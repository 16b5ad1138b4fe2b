//! Reading on pooled connections while the writer writes. Each query is a single statement, so a caller that drops the
//! future of a query leaves no transaction open.

use sqlx::SqlitePool;

use super::cache::Cache;
use super::cold::bound;
use super::error::store_error;
use super::load::key;
use crate::key::{Key, KeyId};
use crate::store::sql::search;
use crate::store::sql::session::Dialect;
use crate::store::{KeyQuery, Page, StoreError};

/// Returns a page of the keys that match `query`, newest first.
pub(super) async fn search(
    readers: &SqlitePool,
    cache: &Cache,
    query: &KeyQuery,
) -> Result<Page<Key, KeyId>, StoreError> {
    search::search(query, |before, limit| candidates(readers, cache, query, before, limit)).await
}

async fn candidates(
    readers: &SqlitePool,
    cache: &Cache,
    query: &KeyQuery,
    before: Option<KeyId>,
    most: usize,
) -> Result<(Vec<Key>, bool), StoreError> {
    let candidates = search::candidates(query, Dialect::Sqlite, before, most);
    let statement = bound(&candidates.sql, candidates.parameters)?.persistent(false);
    let pending = cache.pending.snapshot();
    let found = statement.fetch_all(readers).await.map_err(store_error)?;
    let keys = found.iter().map(|row| key(row, &pending).map(|row| cache.current(row).key));
    Ok((keys.collect::<Result<_, _>>()?, found.len() == most))
}

pub(super) async fn ping(readers: &SqlitePool) -> Result<(), StoreError> {
    sqlx::query("SELECT number FROM delivery_watermark").fetch_one(readers).await.map(drop).map_err(store_error)
}
