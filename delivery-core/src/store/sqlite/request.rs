//! Requests with an `Idempotency-Key`, which buyers may repeat. This module loads the requests that a batch needs, and
//! converts requests to rows for the statement in `batch.sql`, which writes them.

use serde::Serialize;
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::json::json;
use crate::key::KeyId;
use crate::ledger::RequestId;
use crate::ledger::plan::{Loaded, Needs, RequestRow};
use crate::store::StoreError;
use crate::store::sql::request::{row, text};
use crate::store::sql::rows::key_id;

/// Loads the requests that `needs` names.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    needs: &Needs,
    loaded: &mut Loaded,
) -> Result<(), StoreError> {
    const FIND: &str = "SELECT k.id, r.key, r.request, r.product, r.at, r.repeats, r.version FROM json_each(?) w \
        CROSS JOIN delivery_key k ON k.id = unhex(w.value->>0) \
        CROSS JOIN delivery_request r ON r.key = k.number AND r.request = w.value->>1";
    if needs.requests.is_empty() {
        return Ok(());
    }
    let wanted = |(id, request): &(KeyId, RequestId)| (data_encoding::HEXUPPER.encode(id.as_bytes()), text(request));
    let wanted = json(&needs.requests.iter().map(wanted).collect::<Vec<_>>())?;
    for found in &sqlx::query(FIND).bind(wanted).fetch_all(connection).await.map_err(store_error)? {
        loaded.insert_request(key_id(found)?, row(found)?);
    }
    Ok(())
}

/// Converts requests to rows, for the parameter `inbox` of the statement in `batch.sql`.
pub(super) fn rows(requests: &[RequestRow]) -> Vec<impl Serialize + use<>> {
    let row =
        |row: &RequestRow| (row.key, text(&row.request), row.product.get(), row.at.timestamp_millis(), row.repeats);
    requests.iter().map(row).collect()
}
