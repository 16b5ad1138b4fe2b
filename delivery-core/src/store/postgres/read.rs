//! Searching, by a few pooled sessions. It runs in a task of its own, so that a caller that goes away leaves no session halfway.

use sqlx::AssertSqlSafe;

use super::connect::Sessions;
use super::detached;
use super::error::store_error;
use crate::key::{Key, KeyId};
use crate::store::sql::rows;
use crate::store::sql::statements::{self, bind_search, limit};
use crate::store::{KeyQuery, Page, StoreError};

/// Where keys are searched for, and the condition for those that are used up.
pub(super) const KEYS: (&str, &str) = ("delivery_key", "k.max_uses >= 0 AND k.used >= k.max_uses");

pub(super) async fn search(sessions: Sessions, query: KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
    detached(
        async move { statements::search(&query, |before, limit| candidates(&sessions, &query, before, limit)).await },
    )
    .await
}

async fn candidates(
    sessions: &Sessions,
    query: &KeyQuery,
    before: Option<KeyId>,
    most: usize,
) -> Result<(Vec<Key>, bool), StoreError> {
    let mut session = sessions.read().await?;
    let statement = session.query(AssertSqlSafe(statements::keys(query, KEYS)));
    // One with a time in its text will not come again.
    let statement = if query.status.is_some() { statement.persistent(false) } else { statement };
    let statement = bind_search!(statement, query, before, most);
    let found = statement.fetch_all(&mut *session).await.map_err(store_error)?;
    session.finish().await.map_err(store_error)?;
    Ok((found.iter().map(|row| rows::key(row).map(|row| row.key)).collect::<Result<_, _>>()?, found.len() == most))
}

pub(super) async fn ping(sessions: Sessions) -> Result<(), StoreError> {
    detached(async move {
        let mut session = sessions.read().await?;
        session.query("SELECT 1").execute(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)
    })
    .await
}
