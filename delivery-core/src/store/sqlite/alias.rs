//! Aliases of imported keys: MACs of the key texts that another system made. This module loads the aliases that a batch
//! needs, and converts new aliases to rows for the statement in `batch.sql`, which writes them.

use serde::Serialize;
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::json::json;
use crate::key::Alias;
use crate::ledger::plan::{Loaded, Needs};
use crate::store::StoreError;
use crate::store::sql::alias::alias;

/// Loads the aliases that `needs` names.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    needs: &Needs,
    loaded: &mut Loaded,
) -> Result<(), StoreError> {
    const FIND: &str = "SELECT a.mac, k.id FROM json_each(?) w CROSS JOIN delivery_alias a ON a.mac = unhex(w.value) \
        CROSS JOIN delivery_key k ON k.number = a.key";
    if needs.aliases.is_empty() {
        return Ok(());
    }
    let wanted = json(&needs.aliases.iter().map(text).collect::<Vec<_>>())?;
    for found in &sqlx::query(FIND).bind(wanted).fetch_all(connection).await.map_err(store_error)? {
        let (alias, key) = alias(found)?;
        loaded.insert_alias(alias, key);
    }
    Ok(())
}

/// Converts aliases to rows, for the parameter `inbox` of the statement in `batch.sql`.
pub(super) fn rows(aliases: &[(Alias, i64)]) -> Vec<impl Serialize + use<>> {
    aliases.iter().map(|(alias, key)| (text(alias), *key)).collect()
}

fn text(alias: &Alias) -> String {
    data_encoding::HEXUPPER.encode(alias.as_bytes())
}
