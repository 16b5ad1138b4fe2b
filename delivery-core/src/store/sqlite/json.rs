//! Rows as a parameter of a statement.

use crate::store::StoreError;

/// Rows for one statement, as a JSON array of arrays.
pub(super) fn json(rows: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::corrupt_because("rows that are no JSON", error))
}
