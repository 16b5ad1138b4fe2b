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

/// Shares the lock for as long as the session lives; none while a move is under way or unfinished.
pub(super) async fn admit(session: &mut PgConnection) -> Result<Option<Origin>, sqlx::Error> {
    const SHARE: &str = concat!("SELECT pg_try_advisory_lock_shared(", lock!(), ")");
    // After the lock: a move that begins later waits for this session.
    const ORIGIN: &str = "SELECT id, finished_at IS NOT NULL AS finished FROM delivery_move";
    if !sqlx::query_scalar(SHARE).fetch_one(&mut *session).await? {
        return Ok(None);
    }
    let Some(row) = sqlx::query(ORIGIN).fetch_optional(session).await? else { return Ok(Some(Origin(None))) };
    let origin = Origin(Some(row.try_get("id")?));
    Ok(row.try_get::<bool, _>("finished")?.then_some(origin))
}

/// Has the schema to itself from now on, whether it is so. Sessions that just ended are given a moment.
#[cfg(feature = "sqlite")]
pub(super) async fn alone(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const ALONE: &str = concat!("SELECT pg_advisory_lock(", lock!(), ")");
    session.execute("SET lock_timeout = '5s'").await?;
    let locked = session.execute(ALONE).await;
    session.execute("SET lock_timeout = 0").await?;
    match locked {
        Ok(_) => Ok(true),
        // lock_not_available
        Err(error) if super::error::code(&error).as_deref() == Some("55P03") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends the session, and its lock before it: whoever comes next need not wait for the end.
pub(super) async fn leave(mut session: PgConnection) -> Result<(), sqlx::Error> {
    session.execute("SELECT pg_advisory_unlock_all()").await?;
    session.close().await
}
