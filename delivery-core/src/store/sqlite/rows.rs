//! SQLite's rows. A key's row does not count the uses that are not folded.

use sqlx::sqlite::SqliteRow;

use super::error::store_error;
use super::unfolded::Uses;
use super::view::{Entry, View};
use crate::key::Key;
use crate::store::StoreError;
use crate::store::rows::{self, Columns, columns};

columns!(SqliteRow);

/// A key, with the uses that its row does not count.
pub(super) fn entry(row: &SqliteRow, unfolded: Uses) -> Result<Entry, StoreError> {
    let (key, number, last_use) = (rows::key(row)?, row.integer("number")?, row.integer_or_null("last_use")?);
    Ok(match unfolded {
        Uses { count: 0, .. } => Entry { key, number, last_use },
        Uses { count, last } => {
            Entry { key: key.with_used(key.used() + u64::from(count)), number, last_use: Some(last) }
        }
    })
}

/// A key as it is now: a find may have told more than the row that was read a moment ago.
pub(super) fn current(view: &View, row: &SqliteRow, unfolded: Uses) -> Result<Key, StoreError> {
    let known = view.keys.peek(&rows::key_id(row)?);
    known.map_or_else(|| entry(row, unfolded).map(|entry| entry.key), |entry| Ok(entry.key))
}

/// The uses that the counts of `rows` do not have, which were read when so many sweeps had begun. None if there was
/// another one since: then the rows are to be read again.
pub(super) fn unfolded(view: &View, sweeps: u64, rows: &[SqliteRow]) -> Result<Option<Vec<Uses>>, StoreError> {
    let unfolded = view.unfolded();
    if unfolded.sweeps() != sweeps {
        return Ok(None);
    }
    let since = |row: &SqliteRow| Ok(unfolded.since(row.integer("number")?, row.integer_or_null("last_use")?));
    rows.iter().map(since).collect::<Result<_, _>>().map(Some)
}
