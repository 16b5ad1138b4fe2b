//! The message queue, shared by any number of servers. A lease reserves a message for one server until the lease ends.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;

use super::connect::Sessions;
use super::error::store_error;
use super::session::Session;
use crate::ledger::{FailedMessage, Lease, LeasedMessage, Outcome};
use crate::store::sql::messages::{machine, skew_sql as skew};
use crate::store::sql::rows::{self, Columns};
use crate::store::sql::statements::{self, Completion, FAILED, completion, limit};
use crate::store::{LONGEST_LEASE, MAX_RETRY_DELAY, StoreError};

/// Leases at most `most` messages that are due. Skips messages that another server is leasing at the same moment. Also
/// leases messages whose due time or lease is so far ahead that only a wrong clock can have set it.
pub(super) async fn claim(
    session: &mut Session<'_>,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    most: usize,
) -> Result<Vec<LeasedMessage>, StoreError> {
    const CLAIM: &str = concat!(
        "WITH clock AS (SELECT ",
        skew!("$5"),
        " AS skew), due AS ( \
            SELECT number, due_at FROM delivery_message WHERE state = 0 AND due_at <= $1 + (SELECT skew FROM clock) \
            ORDER BY due_at, number LIMIT $4 FOR UPDATE SKIP LOCKED), \
        far AS ( \
            SELECT number, due_at FROM delivery_message WHERE state = 0 AND due_at > $2 + (SELECT skew FROM clock) \
            LIMIT $4 FOR UPDATE SKIP LOCKED), \
        long AS ( \
            SELECT number, due_at FROM delivery_message WHERE leased = 1 AND due_at > $3 + (SELECT skew FROM clock) \
            LIMIT $4 FOR UPDATE SKIP LOCKED), \
        chosen AS (SELECT * FROM due UNION SELECT * FROM far UNION SELECT * FROM long ORDER BY 2, 1 LIMIT $4), \
        leased AS ( \
            UPDATE delivery_message l SET leased = 1, due_at = $6 + (SELECT skew FROM clock), queued_at = least(queued_at, $1 + (SELECT skew FROM clock)), \
                attempts = attempts + 1, token = token + 1 \
            FROM chosen c WHERE l.number = c.number \
            RETURNING l.number, l.key, l.kind, l.recipient, l.message_id, l.attempts, l.token, l.queued_at, c.due_at AS was_due) \
        SELECT l.number AS message, l.kind, l.recipient, l.message_id, l.attempts, l.token, l.queued_at, ",
        rows::key_columns!(),
        " FROM leased l JOIN delivery_key k ON k.number = l.key ORDER BY l.was_due, l.number"
    );
    const FAIL: &str = "UPDATE delivery_message SET state = 2, leased = 0, due_at = $1, reason = 'it cannot be read' WHERE number = $2";
    let ahead = |by| now.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC).timestamp_millis();
    let due = session
        .query(CLAIM)
        .bind(now.timestamp_millis())
        .bind(ahead(MAX_RETRY_DELAY))
        .bind(ahead(LONGEST_LEASE))
        .bind(limit(most))
        .bind(machine())
        .bind(lease_until.timestamp_millis());
    let found = due.fetch_all(&mut **session).await.map_err(store_error)?;
    let mut messages = Vec::with_capacity(found.len());
    for row in &found {
        match message(row) {
            Ok(message) => messages.push(message),
            // A message that cannot be read is marked as failed, so that it is not leased again and again.
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a message cannot be read, and has failed");
                let fail = session.query(FAIL).bind(now.timestamp_millis()).bind(row.integer("message")?);
                fail.execute(&mut **session).await.map_err(store_error)?;
            }
        }
    }
    Ok(messages)
}

fn message(row: &PgRow) -> Result<LeasedMessage, StoreError> {
    rows::message(row, rows::key(row)?.key)
}

/// Ends leases, and writes the outcomes of their messages. Skips messages that were leased again in the meantime.
pub(super) async fn complete(session: &mut Session<'_>, completed: &[(Lease, Outcome)]) -> Result<(), StoreError> {
    // `completed` is sorted, because every server locks rows in the order of their numbers. `+ 0` makes the planner
    // look up each message by its number. Without `+ 0`, the planner might scan the index of all queued messages, of
    // which there may be 100,000.
    const COMPLETE: &str = concat!(
        "WITH clock AS (SELECT ",
        skew!("$8"),
        " AS skew) \
        UPDATE delivery_message m SET leased = 0, state = c.state, \
            due_at = coalesce(c.due_at + CASE WHEN c.state = 0 THEN (SELECT skew FROM clock) ELSE 0 END, m.queued_at), \
            reason = c.reason, attempts = m.attempts - c.given_back, token = m.token + 1, route = c.route \
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::text[]) \
            AS c (number, token, state, due_at, reason, given_back, route) \
        WHERE m.number = c.number AND m.token = c.token AND m.state + 0 = 0"
    );
    let mut completed: Vec<_> = completed.iter().map(|(lease, outcome)| (lease, completion(outcome))).collect();
    completed.sort_unstable_by_key(|(lease, _)| lease.message);
    let column = |of: fn(&(&Lease, Completion<'_>)) -> i64| completed.iter().map(of).collect::<Vec<i64>>();
    let text = |of: for<'c> fn(&'c Completion<'_>) -> Option<&'c str>| {
        completed.iter().map(|(_, it)| of(it).map(str::to_owned)).collect::<Vec<_>>()
    };
    let complete = session
        .query(COMPLETE)
        .bind(column(|(lease, _)| lease.message.get()))
        .bind(column(|(lease, _)| lease.token))
        .bind(column(|(_, it)| it.state))
        .bind(completed.iter().map(|(_, it)| it.due_at).collect::<Vec<_>>())
        .bind(text(|it| it.reason))
        .bind(column(|(_, it)| it.given_back))
        .bind(text(|it| it.route.as_deref()))
        .bind(machine());
    complete.execute(&mut **session).await.map(drop).map_err(store_error)
}

pub(super) async fn renew(session: &mut Session<'_>, leases: &[Lease], until: DateTime<Utc>) -> Result<(), StoreError> {
    const RENEW: &str = concat!(
        "WITH mine AS ( \
            SELECT l.number FROM unnest($1::bigint[], $2::bigint[]) AS r (number, token) \
            JOIN delivery_message l ON l.number = r.number AND l.token = r.token WHERE l.leased = 1 \
            ORDER BY l.number FOR UPDATE OF l SKIP LOCKED) \
        UPDATE delivery_message l SET due_at = $3 + ",
        skew!("$4"),
        " FROM mine WHERE l.number = mine.number"
    );
    let renew = session
        .query(RENEW)
        .bind(leases.iter().map(|lease| lease.message.get()).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.token).collect::<Vec<_>>())
        .bind(until.timestamp_millis())
        .bind(machine());
    renew.execute(&mut **session).await.map(drop).map_err(store_error)
}

/// Returns at most `most` messages that failed for good. Leaves out messages that cannot be read.
pub(super) async fn failed(sessions: Sessions, most: usize) -> Result<Vec<FailedMessage>, StoreError> {
    const SQL: &str = FAILED!("delivery_key");
    super::detached(async move {
        let mut session = sessions.read().await?;
        let found = session.query(SQL).bind(limit(most)).fetch_all(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        Ok(statements::readable(found.iter().map(|row| rows::failed_message(row, rows::key(row)?.key))))
    })
    .await
}
