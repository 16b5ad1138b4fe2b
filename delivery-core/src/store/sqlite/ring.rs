//! The fingerprints of the secrets that keys of this file are signed with.

use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use crate::key::{Acceptance, Fingerprint};
use crate::store::{StoreError, rows};

/// All that are remembered; the one that signed most recently stands first.
pub(super) async fn stored(connection: &mut SqliteConnection) -> Result<Vec<Fingerprint>, StoreError> {
    let all = sqlx::query_scalar("SELECT fingerprint FROM delivery_ring ORDER BY signs DESC");
    Ok(rows::fingerprints(all.fetch_all(connection).await.map_err(store_error)?))
}

/// Remembers a ring if the file accepts it.
pub(super) async fn enroll(connection: &mut SqliteConnection, ring: &[Fingerprint]) -> Result<Acceptance, StoreError> {
    let known = stored(connection).await?;
    let acceptance = Fingerprint::accepts(&known, ring);
    let news = known.first() != ring.first() || ring.iter().any(|fingerprint| !known.contains(fingerprint));
    if acceptance == Acceptance::Accepted && news {
        // The first one last: each counts on from the largest number.
        for fingerprint in ring.iter().rev() {
            sqlx::query(
                "INSERT INTO delivery_ring (fingerprint, signs) \
                 VALUES (?, (SELECT coalesce(max(signs), 0) + 1 FROM delivery_ring)) \
                 ON CONFLICT DO UPDATE SET signs = excluded.signs",
            )
            .bind(fingerprint.as_bytes().as_slice())
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
        }
    }
    Ok(acceptance)
}
