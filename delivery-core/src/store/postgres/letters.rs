//! The queue of letters, shared by any number of servers, and the history of uses.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgRow};

use super::error::store_error;
use crate::store::rows::{self, Columns};
use crate::store::statements::{limit, settled};
use crate::store::{Letter, LetterId, Outcome, Receipt, StoreError};

/// Forget so many uses in one commit.
const PRUNE: usize = 10_000;

/// Leases what is due and nobody else is about to lease.
pub(super) async fn claim(
    session: &mut PgConnection,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    most: usize,
) -> Result<Vec<Letter>, StoreError> {
    const CLAIM: &str = concat!(
        "WITH due AS ( \
            SELECT number, due_at FROM delivery_letter WHERE state = 0 AND due_at <= $1 \
            ORDER BY due_at, number LIMIT $3 FOR UPDATE SKIP LOCKED), \
        leased AS ( \
            UPDATE delivery_letter l SET due_at = $2, attempts = attempts + 1, fence = fence + 1 \
            FROM due WHERE l.number = due.number \
            RETURNING l.number, l.key, l.message_id, l.attempts, l.fence, l.queued_at, due.due_at AS was_due) \
        SELECT l.number AS letter, l.message_id, l.attempts, l.fence, l.queued_at, ",
        rows::key_columns!(),
        " FROM leased l JOIN delivery_key k ON k.number = l.key ORDER BY l.was_due, l.number"
    );
    const PARK: &str =
        "UPDATE delivery_letter SET state = 2, due_at = $1, reason = 'it cannot be read' WHERE number = $2";
    let due = sqlx::query(CLAIM).bind(now.timestamp_millis()).bind(lease_until.timestamp_millis()).bind(limit(most));
    let found = due.fetch_all(&mut *session).await.map_err(store_error)?;
    let mut letters = Vec::with_capacity(found.len());
    for row in &found {
        match letter(row) {
            Ok(letter) => letters.push(letter),
            // One that cannot be read must not stop the others for ever.
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a letter cannot be read, and is parked");
                let park = sqlx::query(PARK).bind(now.timestamp_millis()).bind(row.integer("letter")?);
                park.execute(&mut *session).await.map_err(store_error)?;
            }
        }
    }
    Ok(letters)
}

fn letter(row: &PgRow) -> Result<Letter, StoreError> {
    let (receipt, message_id) = rows::receipt(row)?;
    let (attempt, queued_at) = (rows::attempts(row)?, rows::milliseconds(row.integer("queued_at")?)?);
    Ok(Letter { receipt, message_id, key: rows::key(row)?, attempt, queued_at })
}

pub(super) async fn settle(session: &mut PgConnection, receipt: Receipt, outcome: &Outcome) -> Result<(), StoreError> {
    const SETTLE: &str = "UPDATE delivery_letter SET state = $1, due_at = coalesce($2, queued_at), reason = $3, \
                          attempts = attempts - $4, fence = fence + 1 WHERE number = $5 AND fence = $6 AND state = 0";
    let (state, due_at, reason, given_back) = settled(outcome);
    sqlx::query(SETTLE)
        .bind(state)
        .bind(due_at)
        .bind(reason)
        .bind(given_back)
        .bind(receipt.letter.get())
        .bind(receipt.fence)
        .execute(session)
        .await
        .map(drop)
        .map_err(store_error)
}

pub(super) async fn unpark(
    session: &mut PgConnection,
    letter: LetterId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    const UNPARK: &str = "UPDATE delivery_letter SET state = 0, attempts = 0, reason = NULL, queued_at = $1, due_at = $1 \
                          WHERE number = $2 AND state = 2";
    let update = sqlx::query(UNPARK).bind(now.timestamp_millis()).bind(letter.get());
    Ok(update.execute(session).await.map_err(store_error)?.rows_affected() > 0)
}

/// Forgets the uses before `before` among a slice of numbers from `from` on: how many, and where the next slice begins.
pub(super) async fn prune(
    session: &mut PgConnection,
    before: DateTime<Utc>,
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    const ALONE: &str = "SELECT pg_advisory_xact_lock(hashtextextended('delivery prune of ' || current_schema(), 0))";
    const FORGET: &str = "WITH slice AS (SELECT number FROM delivery_use WHERE number >= $1 ORDER BY number LIMIT $2), \
        gone AS (DELETE FROM delivery_use u USING slice s WHERE u.number = s.number AND u.at < $3 RETURNING 1) \
        SELECT (SELECT count(*) FROM gone) AS pruned, count(*) AS seen, max(number) AS last FROM slice";
    // One server at a time: two would wait for each other's rows.
    sqlx::query(ALONE).execute(&mut *session).await.map_err(store_error)?;
    let forget = sqlx::query(FORGET).bind(from).bind(limit(PRUNE)).bind(before.timestamp_millis());
    let row = forget.fetch_one(session).await.map_err(store_error)?;
    let (pruned, seen, last) = (row.integer("pruned")?, row.integer("seen")?, row.integer_or_null("last")?);
    let next = last.filter(|_| seen == limit(PRUNE)).map(|last| last + 1);
    Ok((u64::try_from(pruned).unwrap_or_default(), next))
}
