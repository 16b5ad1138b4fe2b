//! What a row of a file says about a sale, and how its cells are read.

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

/// A sale that was made elsewhere.
#[derive(Debug)]
pub(super) struct Sale {
    pub(super) order: OrderRef,
    pub(super) email: Email,
    pub(super) product: Option<ProductName>,
    pub(super) created_at: Option<DateTime<Utc>>,
    pub(super) expires_at: Option<DateTime<Utc>>,
    pub(super) limit: Option<UseLimit>,
    pub(super) used: u32,
    pub(super) is_refunded: bool,
    /// The aliases of the text that the buyer already has, newest secret first; empty if the buyer has none.
    pub(super) aliases: Vec<Alias>,
}

/// How a row names its product.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ProductName {
    Number(ProductId),
    /// The names that the row's platform has for the product. One of them is enough to find it.
    References(Vec<RefName>),
}

/// Rounds a time down to whole seconds. Times after [`NEVER`] count as never.
pub(super) fn plausible(at: DateTime<Utc>) -> Result<DateTime<Utc>, Invalid> {
    if at < DateTime::UNIX_EPOCH {
        return Err(Invalid::expected("must be 1970-01-01 or later"));
    }
    Ok(whole_seconds(at).min(NEVER))
}

/// Returns the aliases of the text in this column, newest secret first.
pub(super) fn aliases(row: &SheetRow<'_>, column: &str, keyring: &Keyring) -> Result<Vec<Alias>, String> {
    match row.cell(column) {
        None => Ok(Vec::new()),
        Some(text) if keyring.is_foreign(text) => Ok(keyring.aliases(text)),
        Some(text) if keyring.is_ours(text) => Err(format!("{column} has the form of a key of this service")),
        Some(_) => Err(format!("{column} must be 8 to 512 characters without control characters")),
    }
}

/// Returns what the cell in this column says. The row is refused if the cell is empty.
pub(super) fn needed<T: FromStr<Err = Invalid>>(row: &SheetRow<'_>, column: &str) -> Result<T, String> {
    read(row, column, str::parse)?.ok_or_else(|| format!("{} is missing", column.replace('|', " or ")))
}

/// Returns what the cell in this column says; `None` if the cell is empty.
pub(super) fn read<T>(
    row: &SheetRow<'_>,
    column: &str,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, String> {
    row.cell(column).map(parse).transpose().map_err(|expected| format!("{} {expected}", column.replace('|', " or ")))
}
