//! Searching, by a few pooled sessions. It runs in a task of its own, so that a caller that goes away leaves no session halfway.

use sqlx::{AssertSqlSafe, PgPool};

use super::detached;
use super::error::store_error;
use crate::key::{Key, KeyId};
use crate::store::sql::rows;
use crate::store::sql::statements::{self, bind_search, limit};
use crate::store::{KeyQuery, Page, StoreError};

/// Where keys are searched for, and the condition for those that are used up.
const KEYS: (&str, &str) = ("delivery_key", "k.max_uses >= 0 AND k.used >= k.max_uses");

pub(super) async fn search(pool: PgPool, query: KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
    detached(async move { statements::search(&query, |before, limit| candidates(&pool, &query, before, limit)).await })
        .await
}

async fn candidates(
    pool: &PgPool,
    query: &KeyQuery,
    before: Option<KeyId>,
    most: usize,
) -> Result<(Vec<Key>, bool), StoreError> {
    let statement = sqlx::query(AssertSqlSafe(statements::keys(query, KEYS)));
    // One with a time in its text will not come again.
    let statement = statement.persistent(query.status.is_none());
    let statement = bind_search!(statement, query, before, most);
    let found = statement.fetch_all(pool).await.map_err(store_error)?;
    Ok((found.iter().map(|row| rows::key(row).map(|row| row.key)).collect::<Result<_, _>>()?, found.len() == most))
}

pub(super) async fn ping(pool: PgPool) -> Result<(), StoreError> {
    detached(async move { sqlx::query("SELECT 1").execute(&pool).await.map(drop).map_err(store_error) }).await
}
