//! Loading keys that are not cached. While a query runs, further requests wait, and the next query loads all their keys
//! together.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::oneshot;

use super::cache::Cache;
use super::error::store_error;
use super::json::json;
use super::pending::Snapshot;
use crate::key::KeyId;
use crate::ledger::plan::{PurchaseId, Row};
use crate::store::batch::{BatchHandler, BatchQueue};
use crate::store::sql::rows;
use crate::store::{Attempt, StoreError};

/// Two loaders, each for half of the keys. If both have to read from the disk, they read at the same time.
#[derive(Clone)]
pub(super) struct Loaders([BatchQueue<KeyId, Option<Row>>; 2]);

impl Loaders {
    /// Starts the loaders, each with its own connection. The receivers resolve when the loaders have ended.
    pub(super) fn start(options: &SqliteConnectOptions, cache: &Arc<Cache>) -> (Self, [oneshot::Receiver<()>; 2]) {
        let loader = || BatchQueue::start(Loader { options: options.clone(), cache: cache.clone(), connection: None });
        let [(first, first_end), (second, second_end)] = [loader(), loader()];
        (Self([first, second]), [first_end, second_end])
    }

    /// Returns the row of a key that was not found in the cache; `None` if there is no such key. Loads the row and adds
    /// it to the cache, unless another task has cached the key in the meantime.
    pub(super) async fn load(&self, cache: &Cache, id: KeyId) -> Result<Option<Row>, StoreError> {
        let place = match cache.keys.get_value_or_guard_async(&id).await {
            Ok(row) => return Ok(Some(row)),
            Err(place) => place,
        };
        let [first, second] = &self.0;
        let loader = if id.as_u128().is_multiple_of(2) { first } else { second };
        let Some(row) = loader.submit(id).await? else { return Ok(None) };
        match place.insert(row.clone()) {
            Ok(()) => Ok(Some(row)),
            // The placeholder was replaced or removed in the meantime. If the cache has a row of the key now, that row
            // is at least as new as the loaded row.
            Err(_) => Ok(Some(cache.keys.get(&id).unwrap_or(row))),
        }
    }
}

struct Loader {
    options: SqliteConnectOptions,
    cache: Arc<Cache>,
    /// `None` before the first query, and after a query that failed.
    connection: Option<SqliteConnection>,
}

impl BatchHandler for Loader {
    type Operation = KeyId;
    type Answer = Option<Row>;

    const WRITES: bool = false;

    async fn commit(&mut self, ids: &[KeyId], _: Attempt, _: bool) -> Result<Vec<Option<Option<Row>>>, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(store_error)?,
        };
        let found = keys(&mut connection, &self.cache, ids).await?;
        self.connection = Some(connection);
        let found: HashMap<KeyId, Row> = found.into_iter().map(|row| (row.key.id(), row)).collect();
        Ok(ids.iter().map(|id| Some(found.get(id).cloned())).collect())
    }

    async fn finish(self) {
        if let Some(connection) = self.connection {
            // An error does no harm, because nothing was written on this connection.
            let _ = connection.close().await;
        }
    }
}

/// Loads the rows of the keys with these ids, with their newest counts. A key that does not exist is left out.
pub(super) async fn keys(
    connection: &mut SqliteConnection,
    cache: &Cache,
    ids: &[KeyId],
) -> Result<Vec<Row>, StoreError> {
    const SQL: &str = concat!(
        "SELECT ",
        rows::key_columns!(),
        " FROM json_each(?) j JOIN delivery_counted_key k ON k.id = unhex(j.value)"
    );
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<String> = ids.iter().map(|id| data_encoding::HEXUPPER.encode(id.as_bytes())).collect();
    let pending = cache.pending.snapshot();
    let found = sqlx::query(SQL).bind(json(&ids)?).fetch_all(connection).await.map_err(store_error)?;
    found.iter().map(|row| key(row, &pending)).collect()
}

/// Loads the rows of the keys that were issued for these purchases.
pub(super) async fn purchases(
    connection: &mut SqliteConnection,
    cache: &Cache,
    purchases: impl IntoIterator<Item = &PurchaseId>,
) -> Result<Vec<Row>, StoreError> {
    const SQL: &str = concat!(
        "SELECT ",
        rows::key_columns!(),
        " FROM json_each(?) j JOIN delivery_purchase p \
            ON p.order_id = j.value->>0 AND p.source = j.value->>1 AND p.product = j.value->>2 \
          JOIN delivery_counted_key k ON k.number = p.key"
    );
    let wanted = purchases.into_iter().map(|id| (id.order.id.as_str(), id.order.source.as_str(), id.product.get()));
    let wanted: Vec<(&str, &str, i64)> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let pending = cache.pending.snapshot();
    let found = sqlx::query(SQL).bind(json(&wanted)?).fetch_all(connection).await.map_err(store_error)?;
    found.iter().map(|row| key(row, &pending)).collect()
}

/// Returns a key's row with its newest count, which may be in `pending`. This snapshot must have been taken before the
/// row was read.
pub(super) fn key(row: &SqliteRow, pending: &Snapshot) -> Result<Row, StoreError> {
    rows::key(row).map(|row| pending.newest(row))
}
