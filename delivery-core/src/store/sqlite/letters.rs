//! The queue of letters in SQL. A lease is a due time in the future and a fence: whoever claims a letter raises it, and
//! only the receipt with the newest one settles (in [`plan`](super::plan)).

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::store_error;
use super::rows::entry;
use super::unfolded::Uses;
use super::view::View;
use super::write::json;
use crate::store::rows::{self, Columns};
use crate::store::statements::{limit, stored_route};
use crate::store::{FARTHEST, LONGEST_LEASE, Letter, LetterId, Receipt, Route, StoreError};

pub(super) async fn claim(
    connection: &mut SqliteConnection,
    view: &View,
    (now, lease_until): (DateTime<Utc>, DateTime<Utc>),
    most: usize,
) -> Result<Vec<Letter>, StoreError> {
    const DUE: &str = concat!(
        "SELECT l.number AS letter, l.message_id, l.attempts, l.fence, l.queued_at, ",
        rows::key_columns!(),
        " FROM ( \
            SELECT * FROM (SELECT number FROM delivery_letter WHERE state = 0 AND due_at <= ?1 ORDER BY due_at, number LIMIT ?4) \
            UNION SELECT * FROM (SELECT number FROM delivery_letter WHERE state = 0 AND due_at > ?2 LIMIT ?4) \
            UNION SELECT number FROM delivery_letter WHERE leased = 1 AND due_at > ?3) d \
          JOIN delivery_letter l ON l.number = d.number JOIN delivery_key k ON k.number = l.key \
          ORDER BY l.due_at, l.number LIMIT ?4"
    );
    const LEASE: &str = "UPDATE delivery_letter SET leased = 1, due_at = ?1, queued_at = min(queued_at, ?2), \
                         attempts = attempts + 1, fence = fence + 1 WHERE number IN (SELECT value FROM json_each(?3))";
    const PARK: &str =
        "UPDATE delivery_letter SET state = 2, due_at = ?, reason = 'it cannot be read' WHERE number = ?";
    let [now_ms, farthest, longest] = bounds(now);
    let due = sqlx::query(DUE).bind(now_ms).bind(farthest).bind(longest).bind(limit(most));
    let found = due.fetch_all(&mut *connection).await.map_err(store_error)?;
    // Nobody sweeps meanwhile: that is the writer's work too.
    let uses = |row: &SqliteRow| Ok(view.unfolded().since(row.integer("number")?, row.integer_or_null("last_use")?));
    let mut letters = Vec::with_capacity(found.len());
    for row in &found {
        match uses(row).and_then(|uses| letter(row, uses, now)) {
            Ok(letter) => letters.push(letter),
            // One that cannot be read must not stop the others for ever.
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a letter cannot be read, and is parked");
                let park = sqlx::query(PARK).bind(now.timestamp_millis()).bind(row.integer("letter")?);
                park.execute(&mut *connection).await.map_err(store_error)?;
            }
        }
    }
    let numbers: Vec<i64> = letters.iter().map(|letter| letter.receipt.letter.get()).collect();
    let lease = sqlx::query(LEASE).bind(lease_until.timestamp_millis()).bind(now_ms).bind(json(&numbers)?);
    lease.execute(connection).await.map_err(store_error)?;
    Ok(letters)
}

/// A letter as the claim that is under way leases it.
fn letter(row: &SqliteRow, uses: Uses, now: DateTime<Utc>) -> Result<Letter, StoreError> {
    let (Receipt { letter, fence }, message_id) = rows::receipt(row)?;
    Ok(Letter {
        receipt: Receipt { letter, fence: fence + 1 },
        message_id,
        key: entry(row, uses)?.key,
        attempt: rows::attempts(row)?.saturating_add(1),
        queued_at: rows::milliseconds(row.integer("queued_at")?)?.min(now),
    })
}

/// At the start: whoever held a lease is gone, for one process owns the file. Its letters are due at once.
pub(super) async fn end_leases(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    const END: &str = "UPDATE delivery_letter SET leased = 0, due_at = queued_at, fence = fence + 1 WHERE leased = 1";
    sqlx::query(END).execute(connection).await.map(drop).map_err(store_error)
}

/// `now`, the farthest due time and the longest lease that are believed, in milliseconds.
pub(super) fn bounds(now: DateTime<Utc>) -> [i64; 3] {
    [TimeDelta::zero(), FARTHEST, LONGEST_LEASE]
        .map(|ahead| now.checked_add_signed(ahead).unwrap_or(DateTime::<Utc>::MAX_UTC).timestamp_millis())
}

pub(super) async fn renew(
    connection: &mut SqliteConnection,
    receipts: &[Receipt],
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    const RENEW: &str = "UPDATE delivery_letter SET due_at = ?1 FROM json_each(?2) j \
                         WHERE number = j.value->>0 AND fence = j.value->>1 AND leased = 1";
    let rows: Vec<(i64, i64)> = receipts.iter().map(|receipt| (receipt.letter.get(), receipt.fence)).collect();
    let renew = sqlx::query(RENEW).bind(until.timestamp_millis()).bind(json(&rows)?);
    renew.execute(connection).await.map(drop).map_err(store_error)
}

/// Those that failed, for good or not yet, by another way than `route`, or all without one.
pub(super) async fn unpark_all(
    connection: &mut SqliteConnection,
    route: Option<Route>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    const UNPARK: &str = "UPDATE delivery_letter SET due_at = ?1, reason = NULL, \
            attempts = iif(state = 2, 0, attempts), queued_at = iif(state = 2, ?1, queued_at), state = 0 \
        WHERE (state = 2 OR state = 0 AND leased = 0 AND route IS NOT NULL) AND (?2 IS NULL OR route IS NOT ?2)";
    let update = sqlx::query(UNPARK).bind(now.timestamp_millis()).bind(route.map(stored_route));
    Ok(update.execute(connection).await.map_err(store_error)?.rows_affected())
}

pub(super) async fn unpark(
    connection: &mut SqliteConnection,
    letter: LetterId,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    const UNPARK: &str = "UPDATE delivery_letter SET state = 0, attempts = 0, reason = NULL, queued_at = ?1, due_at = ?1 \
                          WHERE number = ?2 AND state = 2";
    let update = sqlx::query(UNPARK).bind(now.timestamp_millis()).bind(letter.get());
    Ok(update.execute(connection).await.map_err(store_error)?.rows_affected())
}
