//! A database session: one of the store's own, which lasts, or a transaction on a connection of the host application.
//!
//! The store's own session gets its settings at the start and keeps prepared statements. On a connection of the host
//! application nothing may stay behind: settings apply to the transaction, and statements are prepared without a name.
//! A pooler in transaction mode may give the next transaction to another session of the server.

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
    Reader(PoolConnection<Postgres>),
    /// A transaction on a connection from the host application's pool.
    Lent(Lent),
    /// A transaction that is already open and that the caller ends, such as the host application's own.
    Host(&'c mut PgConnection),
}

/// A transaction on a connection from the host application's pool. If it is dropped before it ends, the connection is
/// closed: no connection goes back into the pool with a transaction that is open or has failed.
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
    /// Takes a connection, and executes `begin` on it. If its future is dropped, nothing is left behind, not even a
    /// place among those who wait for a connection.
    pub(super) async fn begin(pool: &PgPool, begin: String) -> Result<Self, sqlx::Error> {
        let mut lent = Self { connection: pool.acquire().await?, is_open: true };
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
    /// Commits a transaction on a session of the store's own. Leaves a transaction open that was open before.
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
    /// Returns a statement; only a session of the store's own keeps it prepared.
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

    /// Begins a transaction, unless one is already open.
    pub(super) async fn begin(&mut self) -> Result<Begun<'_>, sqlx::Error> {
        if self.is_ours() { (**self).begin().await.map(Begun::Own) } else { Ok(Begun::Open(self)) }
    }

    /// Commits the open transaction. Returns the session if it is one of the store's own, to be used again.
    pub(super) async fn commit(mut self) -> Result<Option<Self>, sqlx::Error> {
        if self.is_ours() {
            self.execute("COMMIT").await?;
            return Ok(Some(self));
        }
        self.finish().await.map(|()| None)
    }

    /// Rolls the open transaction back. Returns the session if it is one of the store's own, to be used again.
    pub(super) async fn roll_back(mut self) -> Result<Option<Self>, sqlx::Error> {
        match self {
            Self::Lent(lent) => lent.end("ROLLBACK").await.map(|()| None),
            // The host application ends its own transaction.
            Self::Host(_) => Ok(None),
            Self::Own(_) | Self::Reader(_) => {
                self.execute("ROLLBACK").await?;
                Ok(Some(self))
            }
        }
    }

    /// Ends the work. Commits the transaction if it is one on a connection from the host application's pool.
    pub(super) async fn finish(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Lent(lent) => lent.end("COMMIT").await,
            Self::Own(_) | Self::Reader(_) | Self::Host(_) => Ok(()),
        }
    }

    /// Closes a session of the store's own, or ends the work on another.
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
            Self::Reader(session) => session,
            Self::Lent(lent) => &lent.connection,
            Self::Host(session) => session,
        }
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(session) => session,
            Self::Reader(session) => session,
            Self::Lent(lent) => &mut lent.connection,
            Self::Host(session) => session,
        }
    }
}
