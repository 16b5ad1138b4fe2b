//! The message queue in SQL. Leasing a message sets its due time to the end of the lease, and increments its fencing
//! token. Only the lease with the newest token can complete the message (in `batch.sql`).

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::cache::Cache;
use super::error::store_error;
use super::json::json;
use super::load::key;
use super::pending::Snapshot;
use super::writer::Writer;
use crate::ledger::{FailedMessage, Lease, LeasedMessage};
use crate::store::sql::rows::{self, Columns};
use crate::store::sql::statements::{self, FAILED, limit};
use crate::store::{LONGEST_LEASE, MAX_RETRY_DELAY, StoreError};

/// Leases messages that are due. No transaction is necessary, because nobody else writes between the two statements.
///
/// The limit in the SQL is `?4 + 0` instead of `?4`. With `?4` alone, SQLite's planner would use the value of the
/// parameter, and would plan the statement again whenever the value changes.
pub(super) async fn claim(
    writer: &mut Writer,
    (now, lease_until): (DateTime<Utc>, DateTime<Utc>),
    most: usize,
) -> Result<Vec<LeasedMessage>, StoreError> {
    const DUE: &str = concat!(
        "SELECT m.number AS message, m.kind, m.recipient, m.message_id, m.attempts + 1 AS attempts, m.token + 1 AS token, \
            min(m.queued_at, ?1) AS queued_at, ",
        rows::key_columns!(),
        " FROM ( \
            SELECT * FROM (SELECT number FROM delivery_message WHERE state = 0 AND due_at <= ?1 ORDER BY due_at, number LIMIT ?4 + 0) \
            UNION SELECT * FROM (SELECT number FROM delivery_message WHERE state = 0 AND due_at > ?2 LIMIT ?4 + 0) \
            UNION SELECT number FROM delivery_message WHERE leased = 1 AND due_at > ?3) d \
          JOIN delivery_message m ON m.number = d.number JOIN delivery_counted_key k ON k.number = m.key \
          ORDER BY m.due_at, m.number LIMIT ?4 + 0"
    );
    const LEASE: &str = "UPDATE delivery_message SET leased = 1, due_at = ?1, queued_at = min(queued_at, ?2), \
                         attempts = attempts + 1, token = token + 1 WHERE number IN (SELECT value FROM json_each(?3))";
    const FAIL: &str =
        "UPDATE delivery_message SET state = 2, leased = 0, due_at = ?, reason = 'it cannot be read' WHERE number = ?";
    let [now_ms, farthest, longest] = bounds(now);
    let (pending, connection) = (writer.cache.pending.snapshot(), &mut writer.connection);
    let due = sqlx::query(DUE).bind(now_ms).bind(farthest).bind(longest).bind(limit(most));
    let found = due.fetch_all(&mut *connection).await.map_err(store_error)?;
    let mut messages = Vec::with_capacity(found.len());
    for row in &found {
        match message(row, &pending) {
            Ok(message) => messages.push(message),
            // A message that cannot be read is marked as failed, so that it does not block the other messages for ever.
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a message cannot be read, and has failed");
                let fail = sqlx::query(FAIL).bind(now.timestamp_millis()).bind(row.integer("message")?);
                fail.execute(&mut *connection).await.map_err(store_error)?;
            }
        }
    }
    if !messages.is_empty() {
        let numbers: Vec<i64> = messages.iter().map(|message| message.lease.message.get()).collect();
        let lease = sqlx::query(LEASE).bind(lease_until.timestamp_millis()).bind(now_ms).bind(json(&numbers)?);
        lease.execute(connection).await.map_err(store_error)?;
    }
    Ok(messages)
}

fn message(row: &SqliteRow, pending: &Snapshot) -> Result<LeasedMessage, StoreError> {
    rows::message(row, key(row, pending)?.key)
}

/// Returns whether a claim would lease any message.
pub(super) async fn are_due(readers: &SqlitePool, now: DateTime<Utc>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM delivery_message WHERE state = 0 AND due_at <= ?) \
                       OR EXISTS (SELECT 1 FROM delivery_message WHERE state = 0 AND due_at > ?) \
                       OR EXISTS (SELECT 1 FROM delivery_message WHERE leased = 1 AND due_at > ?)";
    let [now, farthest, longest] = bounds(now);
    let due = sqlx::query_scalar(SQL).bind(now).bind(farthest).bind(longest);
    due.fetch_one(readers).await.map_err(store_error)
}

/// Returns three times in milliseconds: `now`, the latest plausible due time, and the latest plausible end of a lease.
/// A message with a later due time or lease is due at once, because only a wrong clock can have written that time.
fn bounds(now: DateTime<Utc>) -> [i64; 3] {
    [TimeDelta::zero(), MAX_RETRY_DELAY, LONGEST_LEASE]
        .map(|ahead| now.checked_add_signed(ahead).unwrap_or(DateTime::<Utc>::MAX_UTC).timestamp_millis())
}

/// Ends all leases when the store starts. Only one process owns the file, so the workers that held the leases no longer
/// run. The messages become due at once.
pub(super) async fn end_leases(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    const END: &str = "UPDATE delivery_message SET leased = 0, due_at = queued_at, token = token + 1 WHERE leased = 1";
    sqlx::query(END).execute(connection).await.map(drop).map_err(store_error)
}

pub(super) async fn renew(writer: &mut Writer, leases: &[Lease], until: DateTime<Utc>) -> Result<(), StoreError> {
    const RENEW: &str = "UPDATE delivery_message SET due_at = ?1 FROM json_each(?2) j \
                         WHERE number = j.value->>0 AND token = j.value->>1 AND leased = 1";
    let rows: Vec<(i64, i64)> = leases.iter().map(|lease| (lease.message.get(), lease.token)).collect();
    let renew = sqlx::query(RENEW).bind(until.timestamp_millis()).bind(json(&rows)?);
    renew.execute(&mut writer.connection).await.map(drop).map_err(store_error)
}

pub(super) async fn failed(readers: &SqlitePool, cache: &Cache, most: usize) -> Result<Vec<FailedMessage>, StoreError> {
    const SQL: &str = FAILED!("delivery_counted_key");
    let pending = cache.pending.snapshot();
    let found = sqlx::query(SQL).bind(limit(most)).fetch_all(readers).await.map_err(store_error)?;
    let failed = |row| rows::failed_message(row, cache.current(key(row, &pending)?).key);
    Ok(statements::readable(found.iter().map(failed)))
}
