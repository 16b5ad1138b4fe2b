//! A session: one of ours, which lasts, or a transaction on a connection of the host's.
//!
//! A session of ours has its settings from the start and keeps prepared statements. On a connection of the host's nothing may
//! stay behind: settings are those of the transaction, and statements are prepared without a name. A pooler in transaction
//! mode may give the next transaction to another session of the server.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgPool, PgTransaction};
use sqlx::query::{Query, QueryScalar};
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres, SqlSafeStr};

/// Where statements are run.
pub(super) enum Session<'c> {
    /// A session of ours.
    Own(PgConnection),
    /// One of ours that readers share.
    Reader(PoolConnection<Postgres>),
    /// A transaction on a connection from the host's pool.
    Lent(Lent),
    /// The host's own transaction.
    Host(&'c mut PgConnection),
}

/// A transaction on a connection from the host's pool. Unless it is ended, the connection is closed: it does not go back into
/// the pool with a transaction that is open, or has failed.
pub(super) struct Lent {
    connection: PoolConnection<Postgres>,
    is_open: bool,
}

/// A transaction of a session of ours, or the one that is open anyway.
pub(super) enum Begun<'s> {
    Own(PgTransaction<'s>),
    Open(&'s mut PgConnection),
}

impl Lent {
    /// Takes a connection, and executes `begin` on it. Nothing is left behind if that is cut off: not even a place among those
    /// who wait for a connection.
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
    /// Commits the transaction of a session of ours.
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
    /// A statement, prepared for good where that may be.
    pub(super) fn query<'q>(&self, sql: impl SqlSafeStr) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).persistent(self.is_ours())
    }

    /// A statement that returns one column.
    pub(super) fn scalar<'q, T>(&self, sql: impl SqlSafeStr) -> QueryScalar<'q, Postgres, T, PgArguments>
    where
        (T,): for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
    {
        sqlx::query_scalar(sql).persistent(self.is_ours())
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Reader(_))
    }

    /// Begins a transaction, unless one is open anyway.
    pub(super) async fn begin(&mut self) -> Result<Begun<'_>, sqlx::Error> {
        if self.is_ours() { (**self).begin().await.map(Begun::Own) } else { Ok(Begun::Open(self)) }
    }

    /// Commits the open transaction. A session of ours can be used again.
    pub(super) async fn commit(mut self) -> Result<Option<Self>, sqlx::Error> {
        if self.is_ours() {
            self.execute("COMMIT").await?;
            return Ok(Some(self));
        }
        self.finish().await.map(|()| None)
    }

    /// Rolls the open transaction back. A session of ours can be used again.
    pub(super) async fn roll_back(mut self) -> Result<Option<Self>, sqlx::Error> {
        match self {
            Self::Lent(lent) => lent.end("ROLLBACK").await.map(|()| None),
            // The host ends its own.
            Self::Host(_) => Ok(None),
            Self::Own(_) | Self::Reader(_) => {
                self.execute("ROLLBACK").await?;
                Ok(Some(self))
            }
        }
    }

    /// Ends the work: a transaction that was begun for it is committed.
    pub(super) async fn finish(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Lent(lent) => lent.end("COMMIT").await,
            Self::Own(_) | Self::Reader(_) | Self::Host(_) => Ok(()),
        }
    }

    /// Ends a session of ours.
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
