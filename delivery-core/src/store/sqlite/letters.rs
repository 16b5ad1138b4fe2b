//! The queue of letters in SQL. A lease is a due time in the future and a fence: whoever claims a letter raises it, and
//! only the receipt with the newest one settles (in [`plan`](super::plan)).

use chrono::{DateTime, Utc};
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::store_error;
use super::rows::entry;
use super::unfolded::Uses;
use super::view::View;
use super::write::json;
use crate::store::rows::{self, Columns};
use crate::store::statements::limit;
use crate::store::{Letter, LetterId, Receipt, StoreError};

pub(super) async fn claim(
    connection: &mut SqliteConnection,
    view: &View,
    (now, lease_until): (DateTime<Utc>, DateTime<Utc>),
    most: usize,
) -> Result<Vec<Letter>, StoreError> {
    const DUE: &str = concat!(
        "SELECT l.number AS letter, l.message_id, l.attempts, l.fence, l.queued_at, ",
        rows::key_columns!(),
        " FROM delivery_letter l JOIN delivery_key k ON k.number = l.key \
          WHERE l.state = 0 AND l.due_at <= ? ORDER BY l.due_at, l.number LIMIT ?"
    );
    const LEASE: &str = "UPDATE delivery_letter SET leased = 1, due_at = ?, attempts = attempts + 1, fence = fence + 1 \
                         WHERE number IN (SELECT value FROM json_each(?))";
    const PARK: &str =
        "UPDATE delivery_letter SET state = 2, due_at = ?, reason = 'it cannot be read' WHERE number = ?";
    let due = sqlx::query(DUE).bind(now.timestamp_millis()).bind(limit(most));
    let found = due.fetch_all(&mut *connection).await.map_err(store_error)?;
    // Nobody sweeps meanwhile: that is the writer's work too.
    let uses = |row: &SqliteRow| Ok(view.unfolded().since(row.integer("number")?, row.integer_or_null("last_use")?));
    let mut letters = Vec::with_capacity(found.len());
    for row in &found {
        match uses(row).and_then(|uses| letter(row, uses)) {
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
    let lease = sqlx::query(LEASE).bind(lease_until.timestamp_millis()).bind(json(&numbers)?);
    lease.execute(connection).await.map_err(store_error)?;
    Ok(letters)
}

/// A letter as the claim that is under way leases it.
fn letter(row: &SqliteRow, uses: Uses) -> Result<Letter, StoreError> {
    let (Receipt { letter, fence }, message_id) = rows::receipt(row)?;
    Ok(Letter {
        receipt: Receipt { letter, fence: fence + 1 },
        message_id,
        key: entry(row, uses)?.key,
        attempt: rows::attempts(row)?.saturating_add(1),
        queued_at: rows::milliseconds(row.integer("queued_at")?)?,
    })
}

/// At the start: whoever held a lease is gone, for one process owns the file. Its letters are due at once.
pub(super) async fn end_leases(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    const END: &str = "UPDATE delivery_letter SET leased = 0, due_at = queued_at, fence = fence + 1 WHERE leased = 1";
    sqlx::query(END).execute(connection).await.map(drop).map_err(store_error)
}

pub(super) async fn unpark(
    connection: &mut SqliteConnection,
    letter: LetterId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    const UNPARK: &str = "UPDATE delivery_letter SET state = 0, attempts = 0, reason = NULL, queued_at = ?1, due_at = ?1 \
                          WHERE number = ?2 AND state = 2";
    let update = sqlx::query(UNPARK).bind(now.timestamp_millis()).bind(letter.get());
    Ok(update.execute(connection).await.map_err(store_error)?.rows_affected() > 0)
}
