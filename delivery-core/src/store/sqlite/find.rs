//! Finding keys that are not in view: those that are asked for while one question is under way are asked for together.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::oneshot;

use super::error::store_error;
use super::rows::{entry, unfolded};
use super::view::{Entry, View};
use super::write::json;
use crate::key::KeyId;
use crate::store::StoreError;
use crate::store::commit::{Committer, Writer};

/// Those who find keys, each for its share of them: reads of pages that are not in memory then overlap.
#[derive(Clone)]
pub(super) struct Finders([Committer<KeyId, Option<Entry>>; 2]);

impl Finders {
    /// Each has a connection of its own; the receivers resolve when they have ended.
    pub(super) fn start(options: &SqliteConnectOptions, view: &Arc<View>) -> (Self, [oneshot::Receiver<()>; 2]) {
        let finder = || Committer::start(Finder { options: options.clone(), view: view.clone(), connection: None });
        let [(first, first_end), (second, second_end)] = [finder(), finder()];
        (Self([first, second]), [first_end, second_end])
    }

    /// A key that was not in view a moment ago, from its row.
    pub(super) async fn find(&self, view: &View, id: KeyId) -> Result<Option<Entry>, StoreError> {
        let place = match view.keys.get_value_or_guard_async(&id).await {
            Ok(entry) => return Ok(Some(entry)),
            Err(place) => place,
        };
        let [first, second] = &self.0;
        let finder = if id.as_u128().is_multiple_of(2) { first } else { second };
        let Some(entry) = finder.submit(id).await? else { return Ok(None) };
        match place.insert(entry.clone()) {
            Ok(()) => Ok(Some(entry)),
            // The writer changed the key meanwhile: its entry is the newer one.
            Err(_) => Ok(Some(view.keys.get(&id).unwrap_or(entry))),
        }
    }
}

struct Finder {
    options: SqliteConnectOptions,
    view: Arc<View>,
    /// None before the first question, and after one that failed.
    connection: Option<SqliteConnection>,
}

impl Writer for Finder {
    type Operation = KeyId;
    type Answer = Option<Entry>;

    async fn commit(&mut self, ids: &[KeyId], _: bool) -> Result<Vec<Option<Option<Entry>>>, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(store_error)?,
        };
        let found = load(&mut connection, &self.view, ids).await?;
        self.connection = Some(connection);
        Ok(ids.iter().map(|id| Some(found.get(id).cloned())).collect())
    }

    /// Nobody waits for a lock to read.
    fn is_held(&self, _: &KeyId, _: bool) -> bool {
        false
    }

    fn hold(&mut self, _: &KeyId) {}

    async fn upkeep(&mut self) {}

    async fn finish(self) {
        if let Some(connection) = self.connection {
            // It holds nothing.
            let _ = connection.close().await;
        }
    }
}

/// Keys by their rows.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    view: &View,
    ids: &[KeyId],
) -> Result<HashMap<KeyId, Entry>, StoreError> {
    const SQL: &str = concat!(
        "SELECT ",
        crate::store::rows::key_columns!(),
        " FROM json_each(?) j JOIN delivery_key k ON k.id = unhex(j.value)"
    );
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<String> = ids.iter().map(|id| data_encoding::HEXUPPER.encode(id.as_bytes())).collect();
    let ids = json(&ids)?;
    loop {
        let sweeps = view.unfolded().sweeps();
        let rows = sqlx::query(SQL).bind(&ids).fetch_all(&mut *connection).await.map_err(store_error)?;
        if let Some(uses) = unfolded(view, sweeps, &rows)? {
            let entries = rows.iter().zip(uses).map(|(row, uses)| entry(row, uses));
            return entries.map(|entry| entry.map(|entry| (entry.key.id(), entry))).collect();
        }
    }
}
