//! The fingerprints of the secrets that keys of this schema are signed with.

use sqlx::postgres::PgConnection;

use super::error::store_error;
use crate::key::{Acceptance, Fingerprint};
use crate::store::{StoreError, rows};

/// Adds to those that are remembered; the first one signs from now on.
pub(super) async fn add(session: &mut PgConnection, ring: &[Fingerprint]) -> Result<(), StoreError> {
    const ADD: &str = "INSERT INTO delivery_ring (fingerprint, signs) \
        SELECT r.fingerprint, (SELECT coalesce(max(signs), 0) FROM delivery_ring) + r.place \
        FROM unnest($1::bytea[]) WITH ORDINALITY AS r (fingerprint, place) \
        ON CONFLICT (fingerprint) DO UPDATE SET signs = excluded.signs";
    let fingerprints: Vec<Vec<u8>> = ring.iter().rev().map(|fingerprint| fingerprint.as_bytes().to_vec()).collect();
    sqlx::query(ADD).bind(fingerprints).execute(session).await.map(drop).map_err(store_error)
}

/// Remembers a ring if the schema accepts it.
pub(super) async fn enroll(session: &mut PgConnection, ring: &[Fingerprint]) -> Result<Acceptance, StoreError> {
    // Two servers with different secrets that start on an empty schema at once: one is refused.
    let lock = sqlx::query("LOCK TABLE delivery_ring IN SHARE ROW EXCLUSIVE MODE");
    lock.execute(&mut *session).await.map_err(store_error)?;
    let stored: Vec<Vec<u8>> = sqlx::query_scalar("SELECT fingerprint FROM delivery_ring ORDER BY signs DESC")
        .fetch_all(&mut *session)
        .await
        .map_err(store_error)?;
    let known = rows::fingerprints(stored);
    let acceptance = Fingerprint::accepts(&known, ring);
    let news = known.first() != ring.first() || ring.iter().any(|fingerprint| !known.contains(fingerprint));
    if acceptance == Acceptance::Accepted && news {
        add(session, ring).await?;
    }
    Ok(acceptance)
}
