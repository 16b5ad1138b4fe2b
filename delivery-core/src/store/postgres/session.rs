//! A connection to run statements on: either a long-lived session of the store's own, or a transaction on a connection
//! of the host application.
//!
//! A session of the store's own gets its settings when it starts, and keeps prepared statements. On a connection of the
//! host application, nothing may stay behind after the transaction, because a pooler may run the next transaction in
//! another session of the server. So settings apply to the transaction only, and statements are prepared without a
//! name.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgPool, PgTransaction};
use sqlx::query::{Query, QueryScalar};
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres, SqlSafeStr};

/// A connection to run statements on.
pub(super) enum Session<'c> {
    /// A session of the store's own.
    Own(PgConnection),
    /// A session of the store's own, from the pool that readers share.
    Reader(Lent),
    /// A transaction on a connection from the host application's pool.
    Lent(Lent),
    /// A borrowed connection, such as one on which the host application has begun a transaction. The caller begins and
    /// ends the transactions on it.
    Host(&'c mut PgConnection),
}

/// Work on a connection from a pool: reads on a connection from the pool that readers share, or a transaction on a
/// connection from the host application's pool. If the work is dropped before it ends, its connection is closed instead
/// of going back to the pool, for two reasons:
///
/// - A transaction that is open or has failed must not get into the host application's pool.
/// - Before the driver returns a connection to the pool, it sends a ping, and waits for the reply without a time limit.
///   If the network was cut off, the pool would lack the connection for minutes.
pub(super) struct Lent {
    connection: PoolConnection<Postgres>,
    is_open: bool,
}

/// A new transaction on a session of the store's own, or the transaction that is already open.
pub(super) enum Begun<'s> {
    Own(PgTransaction<'s>),
    Open(&'s mut PgConnection),
}

impl Lent {
    /// Takes a connection from the pool, without beginning a transaction.
    pub(super) async fn acquire(pool: &PgPool) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: pool.acquire().await?, is_open: true })
    }

    /// Takes a connection from the pool, and executes the statements in `begin` on it. If the returned future is
    /// dropped before it completes, no transaction stays open, and the call no longer waits in the pool's queue.
    pub(super) async fn begin(pool: &PgPool, begin: String) -> Result<Self, sqlx::Error> {
        let mut lent = Self::acquire(pool).await?;
        sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *lent.connection).await?;
        Ok(lent)
    }

    async fn end(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        self.connection.execute(statement).await?;
        self.is_open = false;
        Ok(())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.close_on_drop();
        }
    }
}

impl Begun<'_> {
    /// Commits the transaction if it was begun on a session of the store's own. If it is a transaction that was already
    /// open, leaves it open.
    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Own(transaction) => transaction.commit().await,
            Self::Open(_) => Ok(()),
        }
    }
}

impl Deref for Begun<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Own(transaction) => transaction,
            Self::Open(session) => session,
        }
    }
}

impl DerefMut for Begun<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(transaction) => transaction,
            Self::Open(session) => session,
        }
    }
}

impl Session<'_> {
    /// Returns a statement to run on this session. A session of the store's own keeps the statement prepared; any other
    /// session does not.
    pub(super) fn query<'q>(&self, sql: impl SqlSafeStr) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).persistent(self.is_ours())
    }

    /// Returns a statement that reads one column.
    pub(super) fn scalar<'q, T>(&self, sql: impl SqlSafeStr) -> QueryScalar<'q, Postgres, T, PgArguments>
    where
        (T,): for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
    {
        sqlx::query_scalar(sql).persistent(self.is_ours())
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Reader(_))
    }

    /// Begins a transaction on a session of the store's own. On any other session, a transaction must already be open.
    /// This transaction is then returned.
    pub(super) async fn begin(&mut self) -> Result<Begun<'_>, sqlx::Error> {
        if self.is_ours() { (**self).begin().await.map(Begun::Own) } else { Ok(Begun::Open(self)) }
    }

    /// Commits the open transaction. For a [`Host`](Self::Host) session, does nothing, because the caller ends that
    /// transaction. Returns this session if it is the store's own, so that it can be used again; otherwise `None`.
    pub(super) async fn commit(mut self) -> Result<Option<Self>, sqlx::Error> {
        if self.is_ours() {
            self.execute("COMMIT").await?;
            return Ok(Some(self));
        }
        self.finish().await.map(|()| None)
    }

    /// Rolls the open transaction back. For a [`Host`](Self::Host) session, does nothing, because the caller ends that
    /// transaction. Returns this session if it is the store's own, so that it can be used again; otherwise `None`.
    pub(super) async fn roll_back(mut self) -> Result<Option<Self>, sqlx::Error> {
        match self {
            Self::Lent(lent) => lent.end("ROLLBACK").await.map(|()| None),
            Self::Host(_) => Ok(None),
            Self::Own(_) | Self::Reader(_) => {
                self.execute("ROLLBACK").await?;
                Ok(Some(self))
            }
        }
    }

    /// Ends the work on this session. If the session is a transaction on a connection from the host application's pool,
    /// commits it. A session from a pool that is dropped without this is closed.
    pub(super) async fn finish(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Lent(lent) => lent.end("COMMIT").await,
            Self::Reader(mut reader) => {
                reader.is_open = false;
                Ok(())
            }
            Self::Own(_) | Self::Host(_) => Ok(()),
        }
    }

    /// Closes the connection of an [`Own`](Self::Own) session. For any other session, only [ends the
    /// work](Self::finish).
    pub(super) async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Own(session) => session.close().await,
            other => other.finish().await,
        }
    }
}

impl Deref for Session<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Own(session) => session,
            Self::Reader(lent) | Self::Lent(lent) => &lent.connection,
            Self::Host(session) => session,
        }
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(session) => session,
            Self::Reader(lent) | Self::Lent(lent) => &mut lent.connection,
            Self::Host(session) => session,
        }
    }
}
