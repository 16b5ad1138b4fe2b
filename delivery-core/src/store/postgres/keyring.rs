//! Fingerprints of the secrets that the keys in this schema are signed with.

use sqlx::Executor;

use super::connect::PATIENT;
use super::error::store_error;
use super::session::Session;
use crate::key::{Acceptance, Fingerprint};
use crate::store::StoreError;
use crate::store::sql::rows;

/// Registers the fingerprints of signing secrets in `keyring`. Fingerprints that were registered before stay.
pub(super) async fn add(session: &mut Session<'_>, keyring: &[Fingerprint]) -> Result<(), StoreError> {
    const ADD: &str =
        "INSERT INTO delivery_keyring (fingerprint) SELECT * FROM unnest($1::bytea[]) ON CONFLICT DO NOTHING";
    let fingerprints: Vec<Vec<u8>> = keyring.iter().map(|fingerprint| fingerprint.as_bytes().to_vec()).collect();
    session.query(ADD).bind(fingerprints).execute(&mut **session).await.map(drop).map_err(store_error)
}

/// Returns whether the schema accepts the signing secrets whose fingerprints are in `keyring`. Also returns all
/// fingerprints that are registered.
pub(super) async fn acceptance(
    session: &mut Session<'_>,
    keyring: &[Fingerprint],
) -> Result<(Acceptance, Vec<Fingerprint>), StoreError> {
    const NEWEST: &str = "SELECT secret_version FROM delivery_key ORDER BY id DESC LIMIT 1";
    let stored = session.scalar("SELECT fingerprint FROM delivery_keyring").fetch_all(&mut **session).await;
    let known = rows::fingerprints(stored.map_err(store_error)?);
    let newest = session.scalar(NEWEST).fetch_optional(&mut **session).await.map_err(store_error)?;
    Ok((Fingerprint::accepts(&known, newest.map(rows::secret_version).transpose()?, keyring), known))
}

/// Registers the fingerprints of signing secrets in `keyring`, if the schema accepts these secrets.
pub(super) async fn register(session: &mut Session<'_>, keyring: &[Fingerprint]) -> Result<Acceptance, StoreError> {
    let mut transaction = session.begin().await.map_err(store_error)?;
    transaction.execute(PATIENT).await.map_err(store_error)?;
    // Without the lock, two servers that start at once on an empty schema, with different secrets, would both be
    // accepted.
    transaction.execute("LOCK TABLE delivery_keyring IN SHARE ROW EXCLUSIVE MODE").await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    let (acceptance, known) = acceptance(&mut inside, keyring).await?;
    if acceptance == Acceptance::Accepted && keyring.iter().any(|fingerprint| !known.contains(fingerprint)) {
        add(&mut inside, keyring).await?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(acceptance)
}
