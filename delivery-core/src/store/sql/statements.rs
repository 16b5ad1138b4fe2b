//! Statements that both databases understand.

use chrono::DateTime;

use super::rows::{Columns, milliseconds};
use crate::ledger::{FailedMessage, Outcome, Route};
use crate::store::{Page, StoreError, Use, UseId};

/// A key's uses, newest first, from use number `$1` on: the chain that each use continues.
pub(in crate::store) const CHAIN: &str = "WITH RECURSIVE chain (number, at, previous) AS ( \
        SELECT number, at, previous FROM delivery_use WHERE number = $1 \
        UNION ALL \
        SELECT u.number, u.at, u.previous FROM chain c JOIN delivery_use u ON u.number = c.previous) \
    SELECT number, at FROM chain LIMIT $2";

/// The use before use number `$1` of the key with id `$2`.
pub(in crate::store) const BEFORE: &str =
    "SELECT u.previous FROM delivery_use u JOIN delivery_key k ON k.number = u.key WHERE u.number = $1 AND k.id = $2";

/// Messages that failed for good, in the order in which they failed, with their keys from the table or view `$keys`.
macro_rules! FAILED {
    ($keys:literal) => {
        concat!(
            "SELECT m.number AS message, m.kind, m.recipient, m.attempts, m.due_at, coalesce(m.reason, '') AS reason, ",
            crate::store::sql::rows::key_columns!(),
            " FROM delivery_message m JOIN ",
            $keys,
            " k ON k.number = m.key WHERE m.state = 2 ORDER BY m.due_at, m.number LIMIT $1"
        )
    };
}
pub(in crate::store) use FAILED;

/// Adds entry `$1` to the audit log: of key row `$2`, of product `$3`, at `$4`, by `$5`, what was done and what else there is to
/// say.
pub(in crate::store) const LOG: &str =
    "INSERT INTO delivery_event (number, key, product, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// A page of at most `size` from the rows of [`CHAIN`], of which one more was asked for.
pub(in crate::store) fn history_page(rows: &[impl Columns], size: usize) -> Result<Page<Use, UseId>, StoreError> {
    let at = |row| milliseconds(Columns::integer(row, "at")?).map(|at| Use { at });
    let items = rows.iter().take(size).map(at).collect::<Result<Vec<_>, _>>()?;
    let last = rows.get(size.saturating_sub(1)).filter(|_| rows.len() > size);
    let next = last.map(|row| row.integer("number").map(UseId::new)).transpose()?;
    Ok(Page { items, next })
}

/// Those that can be read: one that cannot hides no other.
pub(in crate::store) fn readable(
    messages: impl Iterator<Item = Result<FailedMessage, StoreError>>,
) -> Vec<FailedMessage> {
    let unreadable = |error: &StoreError| {
        tracing::error!(error = error as &dyn std::error::Error, "a failed e-mail cannot be read");
    };
    messages.filter_map(|message| message.inspect_err(unreadable).ok()).collect()
}

/// A route as its column has it.
pub(in crate::store) fn stored_route(route: Route) -> String {
    data_encoding::HEXLOWER.encode(route.as_bytes())
}

/// What a message's row becomes when its lease ends.
pub(in crate::store) struct Completion<'a> {
    pub(in crate::store) state: i64,
    /// In milliseconds; `None`: when it was queued.
    pub(in crate::store) due_at: Option<i64>,
    pub(in crate::store) reason: Option<&'a str>,
    /// Attempts to take back.
    pub(in crate::store) given_back: i64,
    pub(in crate::store) route: Option<String>,
}

pub(in crate::store) fn completion(outcome: &Outcome) -> Completion<'_> {
    const QUEUED: i64 = 0;
    const SENT: i64 = 1;
    const FAILED: i64 = 2;
    let (state, at, reason, given_back, route) = match outcome {
        Outcome::Sent { at } => (SENT, Some(at), None, 0, None),
        Outcome::Retry { due, reason, route } => (QUEUED, Some(due), Some(reason.as_str()), 0, route.map(stored_route)),
        Outcome::Postpone { due, reason } => (QUEUED, Some(due), Some(reason.as_str()), 1, None),
        Outcome::Fail { at, reason, route } => (FAILED, Some(at), Some(reason.as_str()), 0, Some(stored_route(*route))),
        Outcome::Release => (QUEUED, None, None, 1, None),
    };
    let due_at = at.map(DateTime::timestamp_millis);
    Completion { state, due_at, reason, given_back, route }
}

/// As a database counts.
pub(in crate::store) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
