//! Loads and persists the aliases of imported keys. An alias is a MAC of the key text that the buyer already had before
//! the import.

use super::error::store_error;
use super::session::Session;
use crate::key::Alias;
use crate::ledger::plan::{Loaded, Needs};
use crate::store::StoreError;
use crate::store::sql::alias::alias;

/// Loads the aliases that `needs` names.
pub(super) async fn load(session: &mut Session<'_>, needs: &Needs, loaded: &mut Loaded) -> Result<(), StoreError> {
    const FIND: &str = "SELECT a.mac, k.id FROM delivery_alias a JOIN delivery_key k ON k.number = a.key \
        WHERE a.mac = ANY($1)";
    if needs.aliases.is_empty() {
        return Ok(());
    }
    let wanted: Vec<Vec<u8>> = needs.aliases.iter().map(|alias| alias.as_bytes().to_vec()).collect();
    for found in &session.query(FIND).bind(wanted).fetch_all(&mut **session).await.map_err(store_error)? {
        let (alias, key) = alias(found)?;
        loaded.insert_alias(alias, key);
    }
    Ok(())
}

/// Inserts aliases, in the order of their bytes. Returns whether all of them were inserted. If another transaction has
/// given one of the aliases to another key in the meantime, returns false, and the caller must roll the transaction
/// back.
pub(super) async fn persist(session: &mut Session<'_>, aliases: &[(Alias, i64)]) -> Result<bool, StoreError> {
    const INSERT: &str = "INSERT INTO delivery_alias (mac, key) \
        SELECT mac, key FROM unnest($1::bytea[], $2::bigint[]) AS n (mac, key) ORDER BY mac ON CONFLICT DO NOTHING";
    if aliases.is_empty() {
        return Ok(true);
    }
    let insert = session
        .query(INSERT)
        .bind(aliases.iter().map(|(alias, _)| alias.as_bytes().to_vec()).collect::<Vec<_>>())
        .bind(aliases.iter().map(|(_, key)| *key).collect::<Vec<_>>());
    let inserted = insert.execute(&mut **session).await.map_err(store_error)?;
    Ok(usize::try_from(inserted.rows_affected()) == Ok(aliases.len()))
}
