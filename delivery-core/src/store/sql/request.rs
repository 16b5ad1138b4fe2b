//! Requests that may be repeated, as rows.

use super::rows::{Columns, milliseconds, product_id};
use crate::ledger::plan::RequestRow;
use crate::store::{RequestId, StoreError};

/// A request as the databases have it.
pub(in crate::store) fn text(request: &RequestId) -> String {
    data_encoding::HEXLOWER.encode(request.as_bytes())
}

/// A request, of the columns of `delivery_request`.
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
