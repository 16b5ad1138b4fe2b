//! A session: one of ours, which lasts, or a transaction on a connection of the host's.
//!
//! A session of ours has its settings from the start and keeps prepared statements. On a connection of the host's nothing may
//! stay behind: settings are those of the transaction, and statements are prepared without a name. A pooler in transaction
//! mode may give the next transaction to another session of the server.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgTransaction};
use sqlx::query::{Query, QueryScalar};
use sqlx::{Connection, Executor, Postgres, SqlSafeStr};

/// Where statements are run.
pub(super) enum Session<'c> {
    /// A session of ours.
    Own(PgConnection),
    /// One of ours that readers share.
    Reader(PoolConnection<Postgres>),
    /// A transaction on a connection from the host's pool.
    Lent(PgTransaction<'static>),
    /// The host's own transaction.
    Host(&'c mut PgConnection),
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

    /// Begins a transaction, or a savepoint of the one that is open.
    pub(super) async fn begin(&mut self) -> Result<PgTransaction<'_>, sqlx::Error> {
        (**self).begin().await
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
        if let Self::Lent(transaction) = self {
            return transaction.rollback().await.map(|()| None);
        }
        self.execute("ROLLBACK").await?;
        Ok(Some(self))
    }

    /// Ends the work: a transaction that was begun for it is committed.
    pub(super) async fn finish(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Lent(transaction) => transaction.commit().await,
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
            Self::Lent(transaction) => transaction,
            Self::Host(session) => session,
        }
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(session) => session,
            Self::Reader(session) => session,
            Self::Lent(transaction) => transaction,
            Self::Host(session) => session,
        }
    }
}
