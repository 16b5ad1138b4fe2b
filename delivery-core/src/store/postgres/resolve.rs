//! Finds out what a batch has written, if the database's reply to the batch was lost.
//!
//! The batch's plan chose the numbers of the rows that the batch writes. If a row with such a number exists, the batch
//! has written it. If the row does not exist, the batch may still write it later, because the statement of the lost
//! session may still be waiting in the server. Therefore the versions of the keys are incremented first. If the lost
//! statement runs after the increment, it finds other versions and writes nothing. So a row that is missing after the
//! increment will never exist.
//!
//! A new key needs no such step. Issuing it again is safe, because its purchase and its id can have only one row each.
//! Completing a message again is safe too, because the lease of the message has a fencing token, which is valid only
//! once.

use std::collections::HashSet;

use super::error::store_error;
use super::messages;
use super::session::Session;
use crate::ledger::plan::{KeyWrite, Writes};
use crate::store::{Persisted, StoreError};

/// Returns for each of [`Writes::keys`] whether it was written. After this call, the lost statement can no longer
/// change an existing key. It can still write new keys, but these may safely be issued again.
pub(super) async fn resolve(session: &mut Session<'_>, writes: &Writes) -> Result<Vec<Persisted>, StoreError> {
    const INCREMENT: &str = "UPDATE delivery_key SET version = version + 1 FROM \
        (SELECT number FROM delivery_key WHERE number = ANY($1) ORDER BY number FOR UPDATE) k \
        WHERE delivery_key.number = k.number";
    const WRITTEN: &str = "SELECT key FROM delivery_use WHERE number = ANY($1) \
        UNION SELECT key FROM delivery_event WHERE number = ANY($1) \
        UNION SELECT k.number FROM unnest($2::bigint[], $3::bytea[]) AS n (number, id) \
            JOIN delivery_key k ON k.number = n.number AND k.id = n.id";
    let (new, changed): (Vec<_>, Vec<_>) = writes.keys.iter().partition(|write| write.loaded.is_none());
    let numbers = |keys: &[&KeyWrite]| keys.iter().map(|write| write.row.number).collect::<Vec<i64>>();
    let ids: Vec<Vec<u8>> = new.iter().map(|write| write.row.key.id().as_bytes().to_vec()).collect();
    let (new, changed) = (numbers(&new), numbers(&changed));
    let records = writes.uses.iter().map(|used| used.number);
    let records: Vec<i64> = records.chain(writes.audit_entries.iter().map(|entry| entry.number)).collect();
    let mut transaction = session.begin().await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    if !changed.is_empty() {
        inside.query(INCREMENT).bind(changed).execute(&mut *inside).await.map_err(store_error)?;
    }
    let written = inside.scalar(WRITTEN).bind(records).bind(new).bind(ids).fetch_all(&mut *inside).await;
    let written: HashSet<i64> = written.map_err(store_error)?.into_iter().collect();
    if !writes.completed.is_empty() {
        messages::complete(&mut inside, &writes.completed).await?;
    }
    transaction.commit().await.map_err(store_error)?;
    let persisted = |number| if written.contains(number) { Persisted::Written } else { Persisted::Conflict };
    Ok(writes.keys.iter().map(|write| persisted(&write.row.number)).collect())
}
