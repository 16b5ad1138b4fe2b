//! JSON text, which passes many rows to a statement in one parameter.

use crate::store::StoreError;

/// Serializes rows to JSON text, for one parameter of a statement.
pub(super) fn json(rows: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::corrupt_because("rows that are no JSON", error))
}
