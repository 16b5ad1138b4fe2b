//! Reading: keys by a session of its own that finds many at once, lists and searches by a few pooled sessions. All of it
//! runs in tasks of the store, so that no caller that goes away leaves a session halfway.

use std::collections::HashMap;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, PgPool};
use tokio::time::timeout;

use super::connect::{BATCH, Sessions};
use super::detached;
use super::error::store_error;
use super::plan::ask;
use crate::key::{Key, KeyId};
use crate::store::commit::Writer;
use crate::store::rows;
use crate::store::statements::{self, BEFORE, CHAIN, PARKED, bind_search, limit};
use crate::store::{KeyQuery, Page, ParkedLetter, StoreError, Use, UseId, page_size};

const EXHAUSTED: &str = "k.max_uses >= 0 AND k.used >= k.max_uses";

/// Finds keys: those that are asked for while one question is under way are asked for together.
pub(super) struct Finder {
    sessions: Sessions,
    session: Option<PgConnection>,
}

impl Finder {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions, session: None }
    }
}

impl Writer for Finder {
    type Operation = KeyId;
    type Answer = Option<Key>;

    async fn commit(&mut self, ids: &[KeyId], _: bool) -> Result<Vec<Option<Option<Key>>>, StoreError> {
        // An idle session may have been cut off meanwhile: then it is asked on a new one.
        if let Some(mut session) = self.session.take() {
            match timeout(BATCH, find(&mut session, ids)).await {
                Ok(Ok(found)) => {
                    self.session = Some(session);
                    return Ok(ids.iter().map(|id| Some(found.get(id).cloned())).collect());
                }
                // No fault of the session's.
                Ok(Err(error @ (StoreError::Corrupt { .. } | StoreError::Contended { .. }))) => {
                    self.session = Some(session);
                    return Err(error);
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let mut session = self.sessions.connect_to_serve().await?;
        let found = timeout(BATCH, find(&mut session, ids)).await;
        let found = found.map_err(|_| StoreError::unavailable("the database does not answer"))??;
        self.session = Some(session);
        Ok(ids.iter().map(|id| Some(found.get(id).cloned())).collect())
    }

    /// Nobody waits for a lock to read.
    fn is_held(&self, _: &KeyId, _: bool) -> bool {
        false
    }

    fn hold(&mut self, _: &KeyId) {}

    async fn upkeep(&mut self) {}

    async fn finish(self) {
        if let Some(session) = self.session {
            // It holds nothing.
            let _ = timeout(BATCH, session.close()).await;
        }
    }
}

async fn find(session: &mut PgConnection, ids: &[KeyId]) -> Result<HashMap<KeyId, Key>, StoreError> {
    const FIND: &str = concat!("SELECT ", rows::key_columns!(), " FROM delivery_key k WHERE k.id = ANY($1)");
    let found = ask(session, FIND, ids).await?;
    let keys = found.iter().map(rows::key);
    keys.map(|key| key.map(|key| (key.id(), key))).collect()
}

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
    let statement = sqlx::query(AssertSqlSafe(statements::keys(query, EXHAUSTED)));
    // One with a time in its text will not come again.
    let statement = statement.persistent(query.standing.is_none());
    let statement = bind_search!(statement, query, before, most);
    let found = statement.fetch_all(pool).await.map_err(store_error)?;
    Ok((found.iter().map(rows::key).collect::<Result<_, _>>()?, found.len() == most))
}

/// Follows the chain of a key's uses.
pub(super) async fn history(
    pool: PgPool,
    id: KeyId,
    before: Option<UseId>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    const NEWEST: &str = "SELECT last_use FROM delivery_key WHERE id = $1";
    detached(async move {
        let newest = match before {
            None => {
                let newest = sqlx::query_scalar(NEWEST).bind(id.as_bytes().as_slice());
                newest.fetch_optional(&pool).await.map_err(store_error)?.flatten()
            }
            Some(before) => {
                let previous = sqlx::query_scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
                previous.fetch_optional(&pool).await.map_err(store_error)?.flatten()
            }
        };
        let size = page_size(most);
        let chain = sqlx::query(CHAIN).bind::<Option<i64>>(newest).bind(limit(size + 1));
        statements::history_page(&chain.fetch_all(&pool).await.map_err(store_error)?, size)
    })
    .await
}

pub(super) async fn ping(pool: PgPool) -> Result<(), StoreError> {
    detached(async move { sqlx::query("SELECT 1").execute(&pool).await.map(drop).map_err(store_error) }).await
}

pub(super) async fn parked_letters(pool: PgPool, most: usize) -> Result<Vec<ParkedLetter>, StoreError> {
    detached(async move {
        let found = sqlx::query(PARKED).bind(limit(most)).fetch_all(&pool).await.map_err(store_error)?;
        let parked = |row: &PgRow| rows::parked_letter(row, rows::key(row)?);
        Ok(statements::readable(found.iter().map(parked)))
    })
    .await
}
