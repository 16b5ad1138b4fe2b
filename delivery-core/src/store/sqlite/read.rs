//! Readers: beside the writer, each a single statement. Dropping one halfway leaves nothing behind.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, SqlitePool};

use super::error::store_error;
use super::find::Finders;
use super::rows::key;
use super::view::View;
use crate::key::{Key, KeyId, Standing};
use crate::store::rows;
use crate::store::statements::{self, BEFORE, CHAIN, PARKED, bind_search, limit};
use crate::store::{KeyQuery, Page, ParkedLetter, StoreError, Use, UseId, page_size};

/// Searches row by row, newest first. The counts in rows may be behind those in view.
pub(super) async fn search(
    readers: &SqlitePool,
    finders: &Finders,
    view: &View,
    query: &KeyQuery,
) -> Result<Page<Key, KeyId>, StoreError> {
    // Used up, but not so by their rows. Whatever is folded from here on, its row tells.
    let behind = match query.standing {
        Some((Standing::Exhausted, _)) => view.unfolded().filter(|key| query.fits(key)).collect(),
        _ => Vec::new(),
    };
    let searcher = Searcher { readers, finders, view, query, behind };
    statements::search(query, |before, limit| searcher.candidates(before, limit)).await
}

struct Searcher<'a> {
    readers: &'a SqlitePool,
    finders: &'a Finders,
    view: &'a View,
    query: &'a KeyQuery,
    behind: Vec<Key>,
}

impl Searcher<'_> {
    async fn candidates(&self, before: Option<KeyId>, most: usize) -> Result<(Vec<Key>, bool), StoreError> {
        let folds = self.view.folds();
        let statement = sqlx::query(AssertSqlSafe(statements::keys(self.query)));
        // One with a time in its text will not come again.
        let statement = statement.persistent(self.query.standing.is_none());
        let statement = bind_search!(statement, self.query, before, most);
        let found = statement.fetch_all(self.readers).await.map_err(store_error)?;
        let more = found.len() == most;
        let mut keys = Vec::with_capacity(found.len());
        for row in &found {
            let id = rows::key_id(row)?;
            keys.push(match self.view.keys.peek(&id) {
                Some(entry) => entry.key,
                None if self.view.folds() == folds => rows::key(row)?,
                // It was folded after the row was read, and is not in view any more: the row is behind.
                None => match self.finders.find(self.view, id).await? {
                    Some(entry) => entry.key,
                    None => rows::key(row)?,
                },
            });
        }
        // Those further down come with a later slice.
        let last = keys.last().map(Key::id).filter(|_| more);
        let here = |key: &&Key| before.is_none_or(|id| key.id() < id) && last.is_none_or(|id| key.id() > id);
        keys.extend(self.behind.iter().filter(here).cloned());
        keys.sort_by_key(|key| Reverse(key.id()));
        keys.dedup_by_key(|key| key.id());
        Ok((keys, more))
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
