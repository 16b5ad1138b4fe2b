//! Checking that a store is empty.

use super::{DumpError, TABLES};
use crate::store::sql::session::{Session, row};

/// Returns whether all tables are empty. Ignores the tables of registered secrets and of sessions at the desk, because
/// their rows are of no use without keys.
pub(in crate::store) async fn is_empty(session: &mut (dyn Session + '_)) -> Result<bool, DumpError> {
    for table in TABLES.iter().filter(|table| !matches!(table.row, "keyring" | "sign_in")) {
        let first = format!("SELECT CAST(1 AS bigint) AS one FROM {} LIMIT 1", table.name);
        if row(session, &first, Vec::new()).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
