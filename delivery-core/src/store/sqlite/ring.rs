//! The fingerprints of the secrets that keys of this file are signed with.

use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use crate::key::Fingerprint;
use crate::store::{StoreError, rows};

/// All that are remembered.
pub(super) async fn stored(connection: &mut SqliteConnection) -> Result<Vec<Fingerprint>, StoreError> {
    let all = sqlx::query_scalar("SELECT fingerprint FROM delivery_ring").fetch_all(connection).await;
    Ok(rows::fingerprints(all.map_err(store_error)?))
}

/// Remembers a ring; whether the file accepts it.
pub(super) async fn enroll(connection: &mut SqliteConnection, ring: &[Fingerprint]) -> Result<bool, StoreError> {
    if !Fingerprint::accepts(&stored(connection).await?, ring) {
        return Ok(false);
    }
    for fingerprint in ring {
        sqlx::query("INSERT INTO delivery_ring (fingerprint) VALUES (?) ON CONFLICT DO NOTHING")
            .bind(fingerprint.as_bytes().as_slice())
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
    }
    Ok(true)
}
