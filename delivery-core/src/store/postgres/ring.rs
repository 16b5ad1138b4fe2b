//! The fingerprints of the secrets that keys of this schema are signed with.

use sqlx::postgres::PgConnection;

use super::error::store_error;
use crate::key::{Acceptance, Fingerprint};
use crate::store::{StoreError, rows};

/// Adds to those that are remembered.
pub(super) async fn add(session: &mut PgConnection, ring: &[Fingerprint]) -> Result<(), StoreError> {
    const ADD: &str =
        "INSERT INTO delivery_ring (fingerprint) SELECT * FROM unnest($1::bytea[]) ON CONFLICT DO NOTHING";
    let fingerprints: Vec<Vec<u8>> = ring.iter().map(|fingerprint| fingerprint.as_bytes().to_vec()).collect();
    sqlx::query(ADD).bind(fingerprints).execute(session).await.map(drop).map_err(store_error)
}

/// Remembers a ring if the schema accepts it.
pub(super) async fn enroll(session: &mut PgConnection, ring: &[Fingerprint]) -> Result<Acceptance, StoreError> {
    const NEWEST: &str = "SELECT ring FROM delivery_key ORDER BY number DESC LIMIT 1";
    // Two servers with different secrets that start on an empty schema at once: one is refused.
    let lock = sqlx::query("LOCK TABLE delivery_ring IN SHARE ROW EXCLUSIVE MODE");
    lock.execute(&mut *session).await.map_err(store_error)?;
    let stored: Vec<Vec<u8>> = sqlx::query_scalar("SELECT fingerprint FROM delivery_ring")
        .fetch_all(&mut *session)
        .await
        .map_err(store_error)?;
    let known = rows::fingerprints(stored);
    let newest = sqlx::query_scalar(NEWEST).fetch_optional(&mut *session).await.map_err(store_error)?;
    let acceptance = Fingerprint::accepts(&known, newest.map(rows::ring_version).transpose()?, ring);
    if acceptance == Acceptance::Accepted && ring.iter().any(|fingerprint| !known.contains(fingerprint)) {
        add(session, ring).await?;
    }
    Ok(acceptance)
}
