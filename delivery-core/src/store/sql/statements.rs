//! Statements that run unchanged on both databases, and the conversion of their parameters and results.

use chrono::DateTime;

use crate::ledger::{FailedMessage, Outcome, Route};
use crate::store::StoreError;

/// Selects at most `$1` messages that failed for good, in the order in which they failed. Each row also has the
/// message's key, from the table or view `$keys`.
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

/// Adds an entry to the audit log. The parameters are its number, the row number of its key, its product, its time in
/// milliseconds, its actor, its action and its detail.
pub(in crate::store) const LOG: &str =
    "INSERT INTO delivery_event (number, key, product, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Returns the messages that can be read. Logs an error for each message that cannot be read.
pub(in crate::store) fn readable(
    messages: impl Iterator<Item = Result<FailedMessage, StoreError>>,
) -> Vec<FailedMessage> {
    let unreadable = |error: &StoreError| {
        tracing::error!(error = error as &dyn std::error::Error, "a failed e-mail cannot be read");
    };
    messages.filter_map(|message| message.inspect_err(unreadable).ok()).collect()
}

/// Returns a route as the database stores it, in hexadecimal. A route is a fingerprint of the settings with which
/// e-mails are sent.
pub(in crate::store) fn stored_route(route: Route) -> String {
    data_encoding::HEXLOWER.encode(route.as_bytes())
}

/// The values that are written to a message's row when the lease of the message ends.
pub(in crate::store) struct Completion<'a> {
    pub(in crate::store) state: i64,
    /// The new value of the column `due_at`, in milliseconds: when a message that stays queued is due, or when the
    /// message was accepted or given up. `None` for a released lease: `due_at` is then set to the time at which the
    /// message was queued, so that the message is due at once.
    pub(in crate::store) due_at: Option<i64>,
    pub(in crate::store) reason: Option<&'a str>,
    /// The number to subtract from the message's attempts: 1 if the message was not tried, because leasing it has
    /// counted as an attempt; otherwise 0.
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

/// Converts a limit to the databases' integer type.
pub(in crate::store) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
