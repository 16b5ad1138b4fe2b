//! PostgreSQL's implementation of [`sql::session`](crate::store::sql::session), which is used for everything that is
//! not performance-critical, such as lists, the catalog, statistics and the erasure of buyers.

use std::collections::HashSet;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column, Either, Executor, Postgres, TypeInfo};

use super::connect::{AT_LENGTH, BATCH, PATIENT};
use super::error::store_error;
use super::numbers::next_block;
use super::session::Session as PgSession;
use super::{PostgresStore, detached_for, inbox};
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::plan::{Loaded, Numbers, ReferenceId};
use crate::store::StoreError;
use crate::store::cache::{PostCache, ProductCache};
use crate::store::sql::records::FIGURES;
use crate::store::sql::rows::Columns;
use crate::store::sql::session::{
    Connection, Database, Dialect, Executed, Patience, Row, Session, Stale, Task, Value, column_names, values,
};

struct Cold<'s, 'c> {
    session: &'s mut PgSession<'c>,
    numbers: Numbers,
}

#[async_trait]
impl Connection for Cold<'_, '_> {
    async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<Executed, StoreError> {
        let query = bound(self.session, sql, values);
        let mut results = (**self.session).fetch_many(query);
        let (mut executed, mut names) = (Executed::default(), None);
        while let Some(result) = results.try_next().await.map_err(store_error)? {
            match result {
                Either::Left(done) => executed.changed += done.rows_affected(),
                Either::Right(row) => {
                    let names = names.get_or_insert_with(|| column_names(&row)).clone();
                    executed.rows.push(Row::new(names, values_of(&row)?));
                }
            }
        }
        Ok(executed)
    }

    async fn number(&mut self) -> Result<i64, StoreError> {
        if self.numbers.left() < 1 {
            self.numbers = next_block(self.session).await?;
        }
        self.numbers.take()
    }

    async fn deals(&mut self, references: HashSet<ReferenceId>) -> Result<Loaded, StoreError> {
        inbox::deals(self.session, references).await
    }
}

/// Returns a statement with its parameters.
pub(super) fn bound(session: &PgSession<'_>, sql: &str, values: Vec<Value>) -> Query<'static, Postgres, PgArguments> {
    let query = session.query(AssertSqlSafe(sql.to_owned()));
    values.into_iter().fold(query, |query, value| match value {
        Value::Integer(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::Integers(values) => query.bind(values),
    })
}

fn values_of(row: &PgRow) -> Result<Vec<Value>, StoreError> {
    let value = |(index, column): (usize, &sqlx::postgres::PgColumn)| {
        match column.type_info().name() {
            "TEXT" => sqlx::Row::try_get(row, index).map(Value::Text),
            "BYTEA" => sqlx::Row::try_get(row, index).map(Value::Bytes),
            _ => sqlx::Row::try_get(row, index).map(Value::Integer),
        }
        .map_err(store_error)
    };
    sqlx::Row::columns(row).iter().enumerate().map(value).collect()
}

impl Database for PostgresStore {
    async fn read<T: Send + 'static>(&self, patience: Patience, work: impl Task<T>) -> Result<T, StoreError> {
        let sessions = self.sessions.clone();
        let limit = if patience == Patience::Long { FIGURES } else { BATCH };
        detached_for(limit, async move {
            let mut session = sessions.read().await?;
            let done = if patience == Patience::Long {
                let mut transaction = session.begin().await.map_err(store_error)?;
                transaction.execute(AT_LENGTH).await.map_err(store_error)?;
                let done = work(&mut cold(&mut PgSession::Host(&mut transaction))).await?;
                transaction.commit().await.map_err(store_error)?;
                done
            } else {
                work(&mut cold(&mut session)).await?
            };
            session.finish().await.map_err(store_error)?;
            Ok(done)
        })
        .await
    }

    async fn write<T: Send + 'static>(&self, patience: Patience, work: impl Task<T>) -> Result<T, StoreError> {
        let queue = self.maintenance()?;
        let written = queue.run(move |session| Box::pin(write(session, patience, work))).await;
        // Clears the product cache even after an error, because the transaction may have been committed nevertheless.
        // If this future is dropped before it clears the cache, the task in `watch` clears the cache.
        match written {
            Ok((done, stale)) => {
                if stale.iter().any(|stale| matches!(stale, Stale::Products)) {
                    self.products.clear();
                }
                Ok(done)
            }
            Err(error) => {
                self.products.clear();
                Err(error)
            }
        }
    }

    async fn ask_lost(&self, email: &Email, at: i64) -> Result<(), StoreError> {
        const ASK: &str = "INSERT INTO delivery_lost (email, at) VALUES ($1, $2)";
        let asked = values![email.as_str(), at];
        self.write(Patience::Usual, move |session| Box::pin(async move { session.execute(ASK, asked).await })).await?;
        Ok(())
    }

    async fn newest_use(&self, id: KeyId) -> Result<Option<i64>, StoreError> {
        const NEWEST: &str = "SELECT last_use FROM delivery_key WHERE id = $1";
        let wanted = values![id.as_bytes().as_slice()];
        let found = self.read(Patience::Usual, |session| Box::pin(session.row(NEWEST, wanted))).await?;
        Ok(found.map(|row| row.integer_or_null("last_use")).transpose()?.flatten())
    }

    /// Does nothing: the database removes deleted rows itself when it vacuums.
    async fn ensure_overwritten(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn products(&self) -> &ProductCache {
        &self.products
    }

    fn posts(&self) -> &PostCache {
        &self.posts
    }
}

pub(super) fn cold<'s>(session: &'s mut PgSession<'_>) -> Session<'s> {
    Session::new(Dialect::Postgres, Cold { session, numbers: Numbers::default() })
}

async fn write<T>(
    session: &mut PgSession<'_>,
    patience: Patience,
    work: impl Task<T>,
) -> Result<(T, Vec<Stale>), StoreError> {
    let mut transaction = session.begin().await.map_err(store_error)?;
    if patience == Patience::Long {
        transaction.execute(PATIENT).await.map_err(store_error)?;
    }
    let mut inside = PgSession::Host(&mut transaction);
    let mut cold = cold(&mut inside);
    let done = work(&mut cold).await?;
    let stale = cold.into_stale();
    transaction.commit().await.map_err(store_error)?;
    Ok((done, stale))
}
