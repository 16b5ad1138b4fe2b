//! Queueing messages, retrying failed ones, and correcting due times if the clocks of servers differ.

use chrono::{DateTime, Utc};

use super::rows::Columns;
use super::session::{Database, Patience, Session, values};
use super::statements::stored_route;
use crate::clock::{Clock, SystemClock};
use crate::ledger::{Action, Edit, MessageId, MessageKind, MessageNumber, Route};
use crate::store::StoreError;

/// Queues messages of one kind in one statement. They are due at `now`, in milliseconds. Each message consists of its
/// number, the row number of its key, its recipient and its message id.
pub(super) async fn queue(
    session: &mut Session<'_>,
    kind: MessageKind,
    messages: Vec<(i64, i64, String, MessageId)>,
    now: i64,
) -> Result<(), StoreError> {
    if messages.is_empty() {
        return Ok(());
    }
    // The kind and the time are the first two parameters, which all messages share.
    let row = |place: usize| {
        let [number, key, recipient, name] = [3, 4, 5, 6].map(|first| first + 4 * place);
        format!("(${number}, ${key}, $1, ${recipient}, ${name}, $2, $2)")
    };
    let rows = (0..messages.len()).map(row).collect::<Vec<_>>().join(", ");
    let queue = format!(
        "INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) VALUES {rows}"
    );
    let mut bound = values![kind.as_str(), now];
    for (number, key, recipient, name) in messages {
        bound.extend(values![number, key, recipient, name.as_str()]);
    }
    session.execute(&queue, bound).await.map(drop)
}

/// The SQL expression for how far PostgreSQL's clock is ahead of this machine's clock, in milliseconds. It is 0 if the
/// clocks differ by at most two seconds, which the network round trip may explain. `$machine` is the parameter with
/// this machine's time.
///
/// The result is added to every due time, so that servers whose clocks differ agree on when a message is due. In tests,
/// due times may come from a clock that is not this machine's clock. The difference between these two clocks is not
/// corrected.
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
#[cfg(feature = "postgres")]
pub(in crate::store) use skew as skew_sql;

/// Returns this machine's time, in milliseconds.
#[cfg(feature = "postgres")]
pub(in crate::store) fn machine() -> i64 {
    SystemClock.now().timestamp_millis()
}

/// Returns how far the database's clock is ahead of this machine's clock, in milliseconds; 0 if they differ by at most
/// two seconds. Returns 0 for SQLite, which has no clock of its own.
pub(super) async fn skew(session: &mut Session<'_>) -> Result<i64, StoreError> {
    const SKEW: &str = concat!("SELECT ", skew!("$1"), " AS skew");
    if session.dialect().is_sqlite() {
        return Ok(0);
    }
    let now = SystemClock.now().timestamp_millis();
    session.row(SKEW, values![now]).await?.ok_or(StoreError::corrupt("a clock without a time"))?.integer("skew")
}

/// Retries a message that failed for good. Returns `false` if no message with this number has failed for good.
pub(in crate::store) async fn retry(
    database: &impl Database,
    message: MessageNumber,
    edit: Edit,
) -> Result<bool, StoreError> {
    const RETRY: &str = "UPDATE delivery_message SET state = 0, attempts = 0, reason = NULL, route = NULL, queued_at = $1, \
        due_at = $1 WHERE number = $2 AND state = 2 RETURNING key";
    database
        .write(Patience::Usual, move |session| {
            Box::pin(async move {
                let now = edit.at.timestamp_millis() + skew(session).await?;
                let Some(row) = session.row(RETRY, values![now, message.get()]).await? else { return Ok(false) };
                session.log((Some(row.integer("key")?), None), Action::MessageRetried, &edit).await?;
                Ok(true)
            })
        })
        .await
}

/// Makes messages due: messages that failed for good, and messages with a route that wait for another attempt. A
/// message's route is a fingerprint of the settings with which sending it failed. If `route` is given, leaves out
/// messages with this route. Always leaves out leased messages, and messages that another transaction has locked.
/// Returns how many messages were made due.
pub(in crate::store) async fn retry_all(
    database: &impl Database,
    route: Option<Route>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    const FAILED: &str = "SELECT number FROM delivery_message \
        WHERE (state = 2 OR state = 0 AND leased = 0 AND route IS NOT NULL) \
            AND (CAST($2 AS text) IS NULL OR route IS NULL OR route <> CAST($2 AS text))";
    database
        .write(Patience::Usual, move |session| {
            Box::pin(async move {
                let now = now.timestamp_millis() + skew(session).await?;
                let failed = session.dialect().skipping(FAILED);
                let retry = format!(
                    "UPDATE delivery_message SET due_at = $1, reason = NULL, route = NULL, \
                        attempts = CASE state WHEN 2 THEN 0 ELSE attempts END, \
                        queued_at = CASE state WHEN 2 THEN $1 ELSE queued_at END, state = 0 WHERE number IN ({failed})"
                );
                session.execute(&retry, values![now, route.map(stored_route)]).await
            })
        })
        .await
}
