//! The fingerprints of the secrets that keys of this file are signed with.

use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use crate::key::{Acceptance, Fingerprint};
use crate::store::{StoreError, rows};

/// All that are remembered.
pub(super) async fn stored(connection: &mut SqliteConnection) -> Result<Vec<Fingerprint>, StoreError> {
    let all = sqlx::query_scalar("SELECT fingerprint FROM delivery_ring").fetch_all(connection).await;
    Ok(rows::fingerprints(all.map_err(store_error)?))
}

/// Remembers a ring if the file accepts it.
pub(super) async fn enroll(connection: &mut SqliteConnection, ring: &[Fingerprint]) -> Result<Acceptance, StoreError> {
    const NEWEST: &str = "SELECT ring FROM delivery_grant ORDER BY number DESC LIMIT 1";
    let known = stored(connection).await?;
    let newest = sqlx::query_scalar(NEWEST).fetch_optional(&mut *connection).await.map_err(store_error)?;
    let acceptance = Fingerprint::accepts(&known, newest.map(rows::ring_version).transpose()?, ring);
    if acceptance == Acceptance::Accepted {
        for fingerprint in ring.iter().filter(|fingerprint| !known.contains(fingerprint)) {
            sqlx::query("INSERT INTO delivery_ring (fingerprint) VALUES (?) ON CONFLICT DO NOTHING")
                .bind(fingerprint.as_bytes().as_slice())
                .execute(&mut *connection)
                .await
                .map_err(store_error)?;
        }
    }
    Ok(acceptance)
}
