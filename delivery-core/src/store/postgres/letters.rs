//! The queue of letters, shared by any number of servers, and the history of uses.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgRow};

use super::error::store_error;
use crate::clock::{Clock, SystemClock};
use crate::store::rows::{self, Columns};
use crate::store::statements::{Settled, limit, settled, stored_route};
use crate::store::{FARTHEST, LONGEST_LEASE, Letter, LetterId, Outcome, Receipt, Route, StoreError};

/// Forget so many uses in one commit.
const PRUNE: usize = 10_000;

/// How far the database's clock is ahead of this machine's, in milliseconds; 0 for what a trip may account for. The
/// parameter is the machine's time. It is added to all times at which letters are due, so that servers whose clocks differ
/// agree. A caller's clock that is not the machine's, as in tests, keeps its difference to that.
macro_rules! skew {
    ($machine:literal) => {
        concat!(
            "(SELECT CASE WHEN abs(s.skew) > 2000 THEN s.skew ELSE 0 END FROM \
             (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ",
            $machine,
            " AS skew) s)"
        )
    };
}
pub(super) use skew;

/// This machine's time, in milliseconds.
pub(super) fn machine() -> i64 {
    SystemClock.now().timestamp_millis()
}

/// Leases what is due and nobody else is about to lease.
pub(super) async fn claim(
    session: &mut PgConnection,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    most: usize,
) -> Result<Vec<Letter>, StoreError> {
    const CLAIM: &str = concat!(
        "WITH clock AS (SELECT ",
        skew!("$5"),
        " AS skew), due AS ( \
            SELECT number, due_at FROM delivery_letter WHERE state = 0 AND due_at <= $1 + (SELECT skew FROM clock) \
            ORDER BY due_at, number LIMIT $4 FOR UPDATE SKIP LOCKED), \
        far AS ( \
            SELECT number, due_at FROM delivery_letter WHERE state = 0 AND due_at > $2 + (SELECT skew FROM clock) \
            LIMIT $4 FOR UPDATE SKIP LOCKED), \
        long AS ( \
            SELECT number, due_at FROM delivery_letter WHERE leased = 1 AND due_at > $3 + (SELECT skew FROM clock) \
            LIMIT $4 FOR UPDATE SKIP LOCKED), \
        chosen AS (SELECT * FROM due UNION SELECT * FROM far UNION SELECT * FROM long ORDER BY 2, 1 LIMIT $4), \
        leased AS ( \
            UPDATE delivery_letter l SET leased = 1, due_at = $6 + (SELECT skew FROM clock), queued_at = least(queued_at, $1 + (SELECT skew FROM clock)), \
                attempts = attempts + 1, fence = fence + 1 \
            FROM chosen c WHERE l.number = c.number \
            RETURNING l.number, l.key, l.message_id, l.attempts, l.fence, l.queued_at, c.due_at AS was_due) \
        SELECT l.number AS letter, l.message_id, l.attempts, l.fence, l.queued_at, ",
        rows::key_columns!(),
        " FROM leased l JOIN delivery_key k ON k.number = l.key ORDER BY l.was_due, l.number"
    );
    const PARK: &str =
        "UPDATE delivery_letter SET state = 2, due_at = $1, reason = 'it cannot be read' WHERE number = $2";
    let ahead = |by| now.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC).timestamp_millis();
    let due = sqlx::query(CLAIM)
        .bind(now.timestamp_millis())
        .bind(ahead(FARTHEST))
        .bind(ahead(LONGEST_LEASE))
        .bind(limit(most))
        .bind(machine())
        .bind(lease_until.timestamp_millis());
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
    const SETTLE: &str = concat!(
        "UPDATE delivery_letter SET leased = 0, state = $1, \
            due_at = coalesce($2 + CASE WHEN $1 = 0 THEN ",
        skew!("$8"),
        " ELSE 0 END, queued_at), reason = $3, attempts = attempts - $4, fence = fence + 1, route = $7 \
         WHERE number = $5 AND fence = $6 AND state = 0"
    );
    let Settled { state, due_at, reason, given_back, route } = settled(outcome);
    sqlx::query(SETTLE)
        .bind(state)
        .bind(due_at)
        .bind(reason)
        .bind(given_back)
        .bind(receipt.letter.get())
        .bind(receipt.fence)
        .bind(route)
        .bind(machine())
        .execute(session)
        .await
        .map(drop)
        .map_err(store_error)
}

pub(super) async fn renew(
    session: &mut PgConnection,
    receipts: &[Receipt],
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    const RENEW: &str = concat!(
        "WITH mine AS ( \
            SELECT l.number FROM unnest($1::bigint[], $2::bigint[]) AS r (number, fence) \
            JOIN delivery_letter l ON l.number = r.number AND l.fence = r.fence WHERE l.leased = 1 \
            ORDER BY l.number FOR UPDATE OF l SKIP LOCKED) \
        UPDATE delivery_letter l SET due_at = $3 + ",
        skew!("$4"),
        " FROM mine WHERE l.number = mine.number"
    );
    let renew = sqlx::query(RENEW)
        .bind(receipts.iter().map(|receipt| receipt.letter.get()).collect::<Vec<_>>())
        .bind(receipts.iter().map(|receipt| receipt.fence).collect::<Vec<_>>())
        .bind(until.timestamp_millis())
        .bind(machine());
    renew.execute(session).await.map(drop).map_err(store_error)
}

/// Those that failed, for good or not yet, by another way than `route`, or all without one. One that somebody else holds is left.
pub(super) async fn unpark_all(
    session: &mut PgConnection,
    route: Option<Route>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    const UNPARK: &str = concat!(
        "WITH parked AS (SELECT number FROM delivery_letter \
            WHERE (state = 2 OR state = 0 AND leased = 0 AND route IS NOT NULL) \
                AND ($2::text IS NULL OR route IS DISTINCT FROM $2) FOR UPDATE SKIP LOCKED), \
        clock AS (SELECT $1 + ",
        skew!("$3"),
        " AS now) \
        UPDATE delivery_letter l SET due_at = clock.now, reason = NULL, \
            attempts = CASE state WHEN 2 THEN 0 ELSE attempts END, \
            queued_at = CASE state WHEN 2 THEN clock.now ELSE queued_at END, state = 0 \
        FROM parked, clock WHERE l.number = parked.number"
    );
    let update = sqlx::query(UNPARK).bind(now.timestamp_millis()).bind(route.map(stored_route)).bind(machine());
    Ok(update.execute(session).await.map_err(store_error)?.rows_affected())
}

pub(super) async fn unpark(
    session: &mut PgConnection,
    letter: LetterId,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    const UNPARK: &str = concat!(
        "WITH clock AS (SELECT $1 + ",
        skew!("$3"),
        " AS now) \
        UPDATE delivery_letter SET state = 0, attempts = 0, reason = NULL, queued_at = clock.now, due_at = clock.now \
        FROM clock WHERE number = $2 AND state = 2"
    );
    let update = sqlx::query(UNPARK).bind(now.timestamp_millis()).bind(letter.get()).bind(machine());
    Ok(update.execute(session).await.map_err(store_error)?.rows_affected())
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
