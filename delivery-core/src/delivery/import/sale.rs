//! A sale as a row of the file describes it, and functions that parse a cell.

use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::sheet::SheetRow;
use crate::clock::whole_seconds;
use crate::email::Email;
use crate::key::{Alias, Keyring};
use crate::order::OrderRef;
use crate::product::{ProductId, RefName};
use crate::terms::{NEVER, UseLimit};
use crate::text::Invalid;

/// A sale that was made on another system.
#[derive(Debug)]
pub(super) struct Sale {
    pub(super) order: OrderRef,
    pub(super) email: Email,
    pub(super) product: Option<ProductName>,
    /// How many pieces of the product were bought. Without a [`limit`](Self::limit), the product's own use limit is
    /// multiplied by this number.
    pub(super) pieces: u64,
    pub(super) created_at: Option<DateTime<Utc>>,
    pub(super) expires_at: Option<DateTime<Utc>>,
    pub(super) limit: Option<UseLimit>,
    pub(super) used: u32,
    pub(super) is_refunded: bool,
    /// The aliases of the key text that the buyer already has: its MACs by each signing secret, newest first. Empty if
    /// the row has no key text.
    pub(super) aliases: Vec<Alias>,
}

/// How a row names its product.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProductName {
    Number(ProductId),
    /// The names that the row's platform has for the product. They are tried in this order until one of them is known.
    References(Vec<RefName>),
}

/// Checks that a time is not before 1970. Rounds the time down to whole seconds, and limits it to [`NEVER`].
pub(super) fn plausible(at: DateTime<Utc>) -> Result<DateTime<Utc>, Invalid> {
    if at < DateTime::UNIX_EPOCH {
        return Err(Invalid::expected("must be 1970-01-01 or later"));
    }
    Ok(whole_seconds(at).min(NEVER))
}

/// Returns the aliases of the key text in this column: its MACs by each signing secret, newest first. Returns an empty
/// list if the cell is empty.
pub(super) fn aliases(row: &SheetRow<'_>, column: &str, keyring: &Keyring) -> Result<Vec<Alias>, String> {
    match row.cell(column) {
        None => Ok(Vec::new()),
        Some(text) if keyring.is_foreign(text) => Ok(keyring.aliases(text)),
        Some(text) if keyring.is_ours(text) => Err(format!("{column} has the form of a key of this service")),
        Some(_) => Err(format!("{column} must be 8 to 512 characters without control characters")),
    }
}

/// Parses the cell in this column. An empty cell is an error.
pub(super) fn needed<T: FromStr<Err = Invalid>>(row: &SheetRow<'_>, column: &str) -> Result<T, String> {
    read(row, column, str::parse)?.ok_or_else(|| format!("{} is missing", column.replace('|', " or ")))
}

/// Parses the cell in this column; returns `None` if the cell is empty.
pub(super) fn read<T>(
    row: &SheetRow<'_>,
    column: &str,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, String> {
    row.cell(column).map(parse).transpose().map_err(|expected| format!("{} {expected}", column.replace('|', " or ")))
}
