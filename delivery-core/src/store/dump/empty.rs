//! Checking that a store is empty.

use super::{DumpError, TABLES};
use crate::store::sql::session::Session;

/// Returns whether all tables are empty. Ignores two tables that a server writes to even in a new store: the one with
/// the fingerprints of signing secrets, and the one with the sessions of signed-in sellers.
pub(in crate::store) async fn is_empty(session: &mut Session<'_>) -> Result<bool, DumpError> {
    for table in TABLES.iter().filter(|table| !matches!(table.row, "keyring" | "sign_in")) {
        let first = format!("SELECT CAST(1 AS bigint) AS one FROM {} LIMIT 1", table.name);
        if session.row(&first, Vec::new()).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
