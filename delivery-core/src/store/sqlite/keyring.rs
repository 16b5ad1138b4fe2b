//! Fingerprints of the secrets that the keys in this file are signed with.

use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::json::json;
use crate::key::{Acceptance, Fingerprint};
use crate::store::StoreError;
use crate::store::sql::rows;

/// Returns all registered fingerprints.
pub(super) async fn registered(connection: &mut SqliteConnection) -> Result<Vec<Fingerprint>, StoreError> {
    let all = sqlx::query_scalar("SELECT fingerprint FROM delivery_keyring").fetch_all(connection).await;
    Ok(rows::fingerprints(all.map_err(store_error)?))
}

/// Returns two things: whether the file accepts the secrets whose fingerprints are in `keyring`, and all registered
/// fingerprints.
pub(super) async fn acceptance(
    connection: &mut SqliteConnection,
    keyring: &[Fingerprint],
) -> Result<(Acceptance, Vec<Fingerprint>), StoreError> {
    const NEWEST: &str = "SELECT secret_version FROM delivery_key ORDER BY number DESC LIMIT 1";
    let known = registered(connection).await?;
    let newest = sqlx::query_scalar(NEWEST).fetch_optional(&mut *connection).await.map_err(store_error)?;
    Ok((Fingerprint::accepts(&known, newest.map(rows::secret_version).transpose()?, keyring), known))
}

/// Registers the fingerprints in `keyring` if the file accepts them.
pub(super) async fn register(
    connection: &mut SqliteConnection,
    keyring: &[Fingerprint],
) -> Result<Acceptance, StoreError> {
    const ADD: &str = "INSERT INTO delivery_keyring (fingerprint) SELECT unhex(value) FROM json_each(?) WHERE true \
                       ON CONFLICT DO NOTHING";
    let (acceptance, known) = acceptance(connection, keyring).await?;
    let new = keyring.iter().filter(|fingerprint| !known.contains(fingerprint));
    let new: Vec<String> = new.map(|fingerprint| data_encoding::HEXUPPER.encode(fingerprint.as_bytes())).collect();
    if acceptance == Acceptance::Accepted && !new.is_empty() {
        sqlx::query(ADD).bind(json(&new)?).execute(connection).await.map_err(store_error)?;
    }
    Ok(acceptance)
}
