//! Persisting a batch with one statement, which is a transaction by itself.

use serde::Serialize;
use sqlx::sqlite::SqliteConnection;

use super::append::append;
use super::error::store_error;
use super::inbox;
use super::json::json;
use crate::ledger::plan::{KeyWrite, NewAuditEntry, NewMessage, NewUse, Writes};
use crate::store::StoreError;
use crate::store::sql::statements::{Completion, completion};

/// Returns whether the use records contain all changes of the key, so that the key's row need not be written. If the
/// key is now used up, its row must be written too, because a search for used-up keys looks only at the rows of keys.
fn is_use_record_enough(write: &KeyWrite) -> bool {
    let state = write.row.key.state();
    write.is_only_counted() && state.limit.allows(state.used)
}

/// Persists `writes`, all or nothing.
pub(super) async fn persist(connection: &mut SqliteConnection, writes: &Writes) -> Result<(), StoreError> {
    const ALL: &str = "INSERT INTO delivery_batch VALUES (?, ?, ?, ?, ?, ?, ?)";
    let are_only_counted = writes.keys.iter().all(is_use_record_enough);
    let are_alone = writes.completed.is_empty() && writes.audit_entries.is_empty() && writes.messages.is_empty();
    let are_alone = are_alone && writes.requests.is_empty();
    if are_only_counted && are_alone && writes.inbox.is_empty() {
        // Only counts have changed, and the use records contain them.
        return append(connection, &writes.uses).await;
    }
    let new = writes.keys.iter().filter(|write| write.loaded.is_none());
    let changed = |write: &&KeyWrite| match write.loaded {
        Some(_) => !is_use_record_enough(write),
        // The INSERT writes only the terms with which the key was sold. If the state of a new key already differs from
        // them, the key is updated too.
        None => write.row.key.state() != crate::key::Key::from(write.row.key.granted().as_ref().clone()).state(),
    };
    let statement = sqlx::query(ALL)
        .bind(rows(new, key)?)
        .bind(rows(writes.keys.iter().filter(changed), state)?)
        .bind(rows(&writes.messages, message)?)
        .bind(rows(&writes.uses, used)?)
        .bind(rows(&writes.audit_entries, audit_entry)?)
        .bind(rows(&writes.completed, |(lease, outcome)| {
            let Completion { state, due_at, reason, given_back, route } = completion(outcome);
            (lease.message.get(), lease.token, state, due_at, reason, given_back, route)
        })?)
        .bind(inbox::rows(writes)?);
    statement.execute(connection).await.map(drop).map_err(store_error)
}

fn rows<'w, T: 'w, R: Serialize>(
    items: impl IntoIterator<Item = &'w T>,
    row: impl Fn(&'w T) -> R,
) -> Result<String, StoreError> {
    json(&items.into_iter().map(row).collect::<Vec<R>>())
}

fn key(write: &KeyWrite) -> impl Serialize + use<'_> {
    let granted = write.row.key.granted();
    let order = granted.order.as_ref();
    (
        write.row.number,
        data_encoding::HEXUPPER.encode(granted.id.as_bytes()),
        granted.secret.get(),
        granted.product.get(),
        granted.email.as_str(),
        order.map(|order| order.source.as_str()),
        order.map(|order| order.id.as_str()),
        granted.issued_at.timestamp(),
        granted.expires_at.timestamp(),
        granted.limit.as_count(),
        granted.host_ref.as_ref().map(crate::HostRef::as_str),
        write.heir_of,
        write.row.key.used(),
    )
}

/// Returns a row with the key's state and e-mail address. The key's count is not in this row, but in the use records.
fn state(write: &KeyWrite) -> impl Serialize + use<'_> {
    let state = write.row.key.state();
    let revoked = state.revoked.as_deref();
    (
        write.row.number,
        state.expires_at.timestamp(),
        state.limit.as_count(),
        revoked.map(|revoked| revoked.at.timestamp_millis()),
        revoked.and_then(|revoked| revoked.reason.as_ref()).map(crate::key::Reason::as_str),
        revoked.map(|revoked| revoked.by.as_str()),
        u8::from(!state.limit.allows(state.used)),
        write.row.key.email().as_str(),
        revoked.and_then(|revoked| revoked.successor),
    )
}

fn message(message: &NewMessage) -> impl Serialize + use<'_> {
    let NewMessage { number, key, id, kind, recipient, at, .. } = message;
    (number, key, kind.as_str(), recipient, id.as_str(), at.timestamp_millis())
}

fn used(used: &NewUse) -> impl Serialize + use<> {
    (used.number, used.key, used.at.timestamp_millis(), used.used, used.previous)
}

fn audit_entry(entry: &NewAuditEntry) -> impl Serialize + use<'_> {
    let NewAuditEntry { number, key, at, actor, action, detail, .. } = entry;
    (number, key, at.timestamp_millis(), actor.as_str(), action.as_str(), detail)
}
