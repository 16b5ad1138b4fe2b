//! The schema lock: any number of servers share it, or one transfer holds it alone.
//!
//! Each session from which a server finds or changes keys shares the lock as long as the session lives. A transfer that began
//! and did not finish is recorded in `delivery_transfer`, which outlives the lock.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};

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

pub(super) async fn share(session: &mut PgConnection) -> Result<LockState, sqlx::Error> {
    const SHARE: &str = concat!("SELECT pg_try_advisory_lock_shared(", lock!(), ")");
    // After the lock: a transfer that begins later waits for this session.
    const ORIGIN: &str = "SELECT id, finished_at IS NOT NULL AS finished FROM delivery_transfer";
    if !sqlx::query_scalar(SHARE).fetch_one(&mut *session).await? {
        return Ok(LockState::Busy);
    }
    match sqlx::query(ORIGIN).fetch_optional(session).await? {
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
