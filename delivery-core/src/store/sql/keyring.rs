//! The keyring of a store: fingerprints of the secrets that its keys are signed with, stored in `delivery_keyring`.

use super::rows::{Columns, secret_version};
use super::session::{Database, Patience, Session, values};
use crate::key::{Acceptance, Fingerprint};
use crate::store::StoreError;

/// Registers the fingerprints in `keyring`, if the store accepts them.
pub(in crate::store) async fn register(database: &impl Database, keyring: &[Fingerprint]) -> Result<(), StoreError> {
    // Without the lock, two servers that start at once on an empty schema, with different secrets, would both be
    // accepted.
    const LOCK: &str = "LOCK TABLE delivery_keyring IN SHARE ROW EXCLUSIVE MODE";
    let wanted = keyring.to_vec();
    let read =
        database.read(Patience::Usual, move |session| Box::pin(async move { acceptance(session, &wanted).await }));
    let (mut accepted, known) = read.await?;
    // Usually all fingerprints are known, so nothing is written. The server can then start even if the disk is full.
    if accepted == Acceptance::Accepted && keyring.iter().any(|fingerprint| !known.contains(fingerprint)) {
        let wanted = keyring.to_vec();
        let registered = database.write(Patience::Long, move |session| {
            Box::pin(async move {
                if !session.dialect().is_sqlite() {
                    session.execute(LOCK, Vec::new()).await?;
                }
                let (accepted, _) = acceptance(session, &wanted).await?;
                if accepted == Acceptance::Accepted {
                    add(session, &wanted).await?;
                }
                Ok(accepted)
            })
        });
        accepted = registered.await?;
    }
    match accepted {
        Acceptance::Accepted => Ok(()),
        Acceptance::Retired => Err(StoreError::RetiredSecret),
        Acceptance::Foreign => Err(StoreError::ForeignSecret),
    }
}

/// Returns whether the store accepts the secrets whose fingerprints are in `keyring`. Also returns all registered
/// fingerprints, without values that do not have the length of a fingerprint.
pub(in crate::store) async fn acceptance(
    session: &mut Session<'_>,
    keyring: &[Fingerprint],
) -> Result<(Acceptance, Vec<Fingerprint>), StoreError> {
    let stored = session.rows("SELECT fingerprint FROM delivery_keyring", Vec::new()).await?;
    let stored = stored.iter().map(|row| row.bytes("fingerprint")).collect::<Result<Vec<_>, _>>()?;
    let known: Vec<_> =
        stored.into_iter().filter_map(|bytes| bytes.try_into().ok()).map(Fingerprint::from_bytes).collect();
    // A SQLite store numbers the keys in the order in which it issues them. On PostgreSQL each server takes numbers in
    // blocks, so the newest key is the one with the greatest id, which begins with the time.
    let newest = if session.dialect().is_sqlite() {
        "SELECT secret_version FROM delivery_key ORDER BY number DESC LIMIT 1"
    } else {
        "SELECT secret_version FROM delivery_key ORDER BY id DESC LIMIT 1"
    };
    let newest = session.row(newest, Vec::new()).await?;
    let newest = newest.map(|row| secret_version(row.integer("secret_version")?)).transpose()?;
    Ok((Fingerprint::accepts(&known, newest, keyring), known))
}

/// Adds fingerprints. Those that are already registered stay.
pub(in crate::store) async fn add(session: &mut Session<'_>, keyring: &[Fingerprint]) -> Result<(), StoreError> {
    const ADD: &str = "INSERT INTO delivery_keyring (fingerprint) VALUES ($1) ON CONFLICT DO NOTHING";
    for fingerprint in keyring {
        session.execute(ADD, values![fingerprint.as_bytes().as_slice()]).await?;
    }
    Ok(())
}
