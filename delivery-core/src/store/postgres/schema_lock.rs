//! The schema lock: any number of servers share it, or one transfer holds it alone.
//!
//! Each session from which a server finds or changes keys shares the lock as long as the session lives, or as long as the
//! transaction does on a connection of the host's. A transfer that began
//! and did not finish is recorded in `delivery_transfer`, which outlives the lock.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};

use super::session::Session;

macro_rules! lock {
    () => {
        "hashtextextended('delivery servers of ' || current_schema(), 0)"
    };
}

/// The transfer that filled the schema, if any: a server that opened it before knows other secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Origin(Option<Vec<u8>>);

/// What a server's session finds.
pub(super) enum LockState {
    /// It may serve, and shares the lock for as long as it lives.
    Shared(Origin),
    /// A transfer holds the lock.
    Busy,
    /// A transfer began and did not finish.
    Unfinished,
}

/// Shares the lock for as long as the session lives.
pub(super) async fn share(session: &mut PgConnection) -> Result<LockState, sqlx::Error> {
    const SHARE: &str = concat!("SELECT pg_try_advisory_lock_shared(", lock!(), ")");
    let is_shared: bool = sqlx::query_scalar(SHARE).fetch_one(&mut *session).await?;
    state(&mut Session::Host(session), is_shared).await
}

/// Shares the lock until the transaction ends.
pub(super) async fn share_for_transaction(session: &mut Session<'_>) -> Result<LockState, sqlx::Error> {
    const SHARE: &str = concat!("SELECT pg_try_advisory_xact_lock_shared(", lock!(), ")");
    let is_shared: bool = session.scalar(SHARE).fetch_one(&mut **session).await?;
    state(session, is_shared).await
}

/// What is found after the lock: a transfer that begins later waits for this session.
async fn state(session: &mut Session<'_>, is_shared: bool) -> Result<LockState, sqlx::Error> {
    const ORIGIN: &str = "SELECT id, finished_at IS NOT NULL AS finished FROM delivery_transfer";
    if !is_shared {
        return Ok(LockState::Busy);
    }
    match session.query(ORIGIN).fetch_optional(&mut **session).await? {
        None => Ok(LockState::Shared(Origin(None))),
        Some(row) if row.try_get("finished")? => Ok(LockState::Shared(Origin(Some(row.try_get("id")?)))),
        Some(_) => Ok(LockState::Unfinished),
    }
}

/// Holds the lock alone from now on. Returns whether it does.
#[cfg(feature = "sqlite")]
pub(super) async fn alone(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // Not a lock that is waited for: servers could not share theirs meanwhile.
    const ALONE: &str = concat!("SELECT pg_try_advisory_lock(", lock!(), ")");
    const MOMENT: std::time::Duration = std::time::Duration::from_millis(100);
    // Sessions that just ended are given five seconds.
    for _ in 0..50 {
        if sqlx::query_scalar(ALONE).fetch_one(&mut *session).await? {
            return Ok(true);
        }
        tokio::time::sleep(MOMENT).await;
    }
    Ok(false)
}

/// Ends the session, and its lock before it: whoever comes next need not wait for the end.
pub(super) async fn leave(mut session: PgConnection) -> Result<(), sqlx::Error> {
    session.execute("SELECT pg_advisory_unlock_all()").await?;
    session.close().await
}
