//! Who may use the schema: any number of servers, or one move into it.
//!
//! Each session from which a server finds or changes keys shares a lock as long as it lives; a move has it alone. What a
//! move began and did not finish is marked in `delivery_move`, which outlives the lock.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};

macro_rules! lock {
    () => {
        "hashtextextended('delivery servers of ' || current_schema(), 0)"
    };
}

/// The move that the schema was filled by, if any: a server that opened it before knows other secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Origin(Option<Vec<u8>>);

/// What a server's session finds.
pub(super) enum Admission {
    /// It may serve, and shares the lock for as long as it lives.
    Admitted(Origin),
    /// A move has the lock.
    Busy,
    /// A move began and did not finish.
    Unfinished,
}

pub(super) async fn admit(session: &mut PgConnection) -> Result<Admission, sqlx::Error> {
    const SHARE: &str = concat!("SELECT pg_try_advisory_lock_shared(", lock!(), ")");
    // After the lock: a move that begins later waits for this session.
    const ORIGIN: &str = "SELECT id, finished_at IS NOT NULL AS finished FROM delivery_move";
    if !sqlx::query_scalar(SHARE).fetch_one(&mut *session).await? {
        return Ok(Admission::Busy);
    }
    match sqlx::query(ORIGIN).fetch_optional(session).await? {
        None => Ok(Admission::Admitted(Origin(None))),
        Some(row) if row.try_get("finished")? => Ok(Admission::Admitted(Origin(Some(row.try_get("id")?)))),
        Some(_) => Ok(Admission::Unfinished),
    }
}

/// Has the schema to itself from now on, whether it is so.
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
