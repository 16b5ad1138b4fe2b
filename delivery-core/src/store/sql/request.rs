//! Requests with an `Idempotency-Key`, stored in `delivery_request`.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::rows::{Columns, milliseconds, product_id};
use super::session::{Database, Patience, part_by_part, values};
use crate::ledger::RequestId;
use crate::ledger::plan::RequestRow;
use crate::store::{Requests, StoreError};

/// The maximum number of requests that a prune deletes in one transaction.
const AT_ONCE: i64 = 5_000;

#[async_trait]
impl<D: Database> Requests for D {
    async fn prune_requests(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        // Both the inner and the outer query check the time. Between these checks, another server may have used the
        // same request id for a new request, which must not be deleted.
        const PRUNE: &str = "DELETE FROM delivery_request WHERE at < $1 AND (key, request) IN \
            (SELECT key, request FROM delivery_request WHERE at < $1 LIMIT $2)";
        part_by_part(|_| {
            self.write(Patience::Long, move |session| {
                Box::pin(async move {
                    let pruned = session.execute(PRUNE, values![before.timestamp_millis(), AT_ONCE]).await?;
                    Ok((pruned, (pruned.cast_signed() == AT_ONCE).then_some(0)))
                })
            })
        })
        .await
    }
}

/// Returns a request id as the databases store it, in hexadecimal.
pub(in crate::store) fn text(request: &RequestId) -> String {
    data_encoding::HEXLOWER.encode(request.as_bytes())
}

/// Converts a row of `delivery_request`.
pub(in crate::store) fn row(row: &impl Columns) -> Result<RequestRow, StoreError> {
    let request =
        data_encoding::HEXLOWER.decode(row.text("request")?.as_bytes()).ok().and_then(|it| it.try_into().ok());
    let request = request.ok_or(StoreError::corrupt("a request that is no 16 bytes"))?;
    Ok(RequestRow {
        key: row.integer("key")?,
        request: RequestId::from_bytes(request),
        product: product_id(row.integer("product")?)?,
        at: milliseconds(row.integer("at")?)?,
        repeats: u32::try_from(row.integer("repeats")?).unwrap_or(u32::MAX),
        version: row.integer("version")?,
    })
}
