//! SQLite's rows. A key's row does not count the uses that are not folded; the view does.

use sqlx::sqlite::SqliteRow;

use super::error::store_error;
use super::view::{Entry, View};
use crate::key::Key;
use crate::store::StoreError;
use crate::store::rows::{self, Columns, columns};

columns!(SqliteRow);

/// A key whose uses are all folded.
pub(super) fn entry(row: &SqliteRow) -> Result<Entry, StoreError> {
    let (number, last_use) = (row.integer("number")?, row.integer_or_null("last_use")?);
    Ok(Entry { key: rows::key(row)?, number, last_use, unfolded: 0 })
}

/// The key of a joined row, with the uses that are not folded.
pub(super) fn key(row: &SqliteRow, view: &View) -> Result<Key, StoreError> {
    let id = rows::key_id(row)?;
    view.keys.peek(&id).map_or_else(|| rows::key(row), |entry| Ok(entry.key))
}
