//! Searching, on a few pooled sessions. Each search runs in its own task, and continues even if its caller stops
//! waiting.

use super::cold::bound;
use super::connect::Sessions;
use super::detached;
use super::error::store_error;
use crate::key::{Key, KeyId};
use crate::store::sql::rows;
use crate::store::sql::search;
use crate::store::sql::session::Dialect;
use crate::store::{KeyQuery, Page, StoreError};

pub(super) async fn search(sessions: Sessions, query: KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
    detached(async move { search::search(&query, |before, limit| candidates(&sessions, &query, before, limit)).await })
        .await
}

async fn candidates(
    sessions: &Sessions,
    query: &KeyQuery,
    before: Option<KeyId>,
    most: usize,
) -> Result<(Vec<Key>, bool), StoreError> {
    let mut session = sessions.read().await?;
    let candidates = search::candidates(query, Dialect::Postgres, before, most);
    let statement = bound(&session, &candidates.sql, candidates.parameters).persistent(false);
    let found = statement.fetch_all(&mut *session).await.map_err(store_error)?;
    session.finish().await.map_err(store_error)?;
    Ok((found.iter().map(|row| rows::key(row).map(|row| row.key)).collect::<Result<_, _>>()?, found.len() == most))
}

pub(super) async fn ping(sessions: Sessions) -> Result<(), StoreError> {
    detached(async move {
        let mut session = sessions.read().await?;
        // The ping also fails if the server would lose acknowledged writes in a crash, because the store then refuses
        // every write.
        sessions.ensure_durable(&mut session).await?;
        session.finish().await.map_err(store_error)
    })
    .await
}
