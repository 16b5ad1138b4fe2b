//! Loads and persists requests that came with an `Idempotency-Key`, so that a repeated request is recognized.

use super::error::store_error;
use super::session::Session;
use crate::ledger::plan::{Loaded, Needs, RequestRow};
use crate::store::StoreError;
use crate::store::sql::request::{row, text};
use crate::store::sql::rows::key_id;

/// Loads the requests with an `Idempotency-Key` that `needs` names.
pub(super) async fn load(session: &mut Session<'_>, needs: &Needs, loaded: &mut Loaded) -> Result<(), StoreError> {
    const FIND: &str = "SELECT k.id, r.key, r.request, r.product, r.at, r.repeats, r.version \
        FROM unnest($1::bytea[], $2::text[]) AS w (id, request) JOIN delivery_key k ON k.id = w.id \
        JOIN delivery_request r ON r.key = k.number AND r.request = w.request";
    if needs.requests.is_empty() {
        return Ok(());
    }
    let find = session
        .query(FIND)
        .bind(needs.requests.iter().map(|(id, _)| id.as_bytes().to_vec()).collect::<Vec<_>>())
        .bind(needs.requests.iter().map(|(_, request)| text(request)).collect::<Vec<_>>());
    for found in &find.fetch_all(&mut **session).await.map_err(store_error)? {
        loaded.insert_request(key_id(found)?, row(found)?);
    }
    Ok(())
}

/// Writes requests with an `Idempotency-Key`. Returns whether all were written. Returns false if another server has
/// answered one of these requests in the meantime. The caller must then roll the transaction back.
pub(super) async fn persist(session: &mut Session<'_>, requests: &[RequestRow]) -> Result<bool, StoreError> {
    const REQUESTS: &str = "WITH new AS ( \
            SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) \
                AS n (key, request, product, at, repeats, version)), \
        changed AS ( \
            UPDATE delivery_request r SET product = n.product, at = n.at, repeats = n.repeats, version = r.version + 1 \
            FROM new n WHERE n.version > 0 AND r.key = n.key AND r.request = n.request AND r.version = n.version \
            RETURNING r.key), \
        inserted AS ( \
            INSERT INTO delivery_request (key, request, product, at, repeats, version) \
            SELECT key, request, product, at, repeats, 1 FROM new WHERE version = 0 ORDER BY key, request \
            ON CONFLICT DO NOTHING RETURNING key) \
        SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM inserted)";
    if requests.is_empty() {
        return Ok(true);
    }
    let written = session
        .scalar::<i64>(REQUESTS)
        .bind(requests.iter().map(|row| row.key).collect::<Vec<_>>())
        .bind(requests.iter().map(|row| text(&row.request)).collect::<Vec<_>>())
        .bind(requests.iter().map(|row| row.product.get()).collect::<Vec<_>>())
        .bind(requests.iter().map(|row| row.at.timestamp_millis()).collect::<Vec<_>>())
        .bind(requests.iter().map(|row| i64::from(row.repeats)).collect::<Vec<_>>())
        .bind(requests.iter().map(|row| row.version).collect::<Vec<_>>());
    let written = written.fetch_one(&mut **session).await.map_err(store_error)?;
    Ok(usize::try_from(written) == Ok(requests.len()))
}
