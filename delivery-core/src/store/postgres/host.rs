//! Work inside a transaction of the host application.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::Executor;

use super::cold::cold;
use super::error::store_error;
use super::numbers::next_block;
use super::persist::persist;
use super::session::Session;
use super::{PostgresStore, alias, load};
use crate::key::Key;
use crate::ledger::operation::{needs, plan};
use crate::ledger::plan::Loaded;
use crate::ledger::{Answer, ChangeKey, Edit, Issue, NewSale, Operation, Refused};
use crate::product::{NewProduct, Product};
use crate::store::host::elsewhere;
use crate::store::sql::catalog;
use crate::store::{HostTransaction, HostTransactions, Persisted, StoreError};

/// The maximum number of attempts for an operation. The first attempt fails if another transaction commits the same
/// order in the meantime.
const LOOKS: usize = 2;

#[async_trait]
impl HostTransactions for PostgresStore {
    async fn issue(&self, transaction: HostTransaction<'_>, sale: &NewSale) -> Result<Issue, StoreError> {
        let operation = Operation::Issue(Box::new(sale.clone()));
        self.inside(transaction, |_| true, |session| Box::pin(operate(session, operation))).await?.issued()
    }

    async fn change(
        &self,
        transaction: HostTransaction<'_>,
        change: ChangeKey,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        // If the key was not changed, the savepoint is rolled back, which releases the key's lock.
        let is_changed = |answer: &Answer| matches!(answer, Answer::Changed(Some(Ok(_))));
        let operation = Operation::Change(change);
        self.inside(transaction, is_changed, |session| Box::pin(operate(session, operation))).await?.changed()
    }

    async fn add_product(
        &self,
        transaction: HostTransaction<'_>,
        product: NewProduct,
        edit: Edit,
    ) -> Result<Arc<Product>, StoreError> {
        self.inside(
            transaction,
            |_| true,
            |session| Box::pin(async move { catalog::add(&mut cold(session), &product, &edit).await }),
        )
        .await
    }

    fn committed(&self) {
        self.products.clear();
    }
}

impl PostgresStore {
    /// Does `work` within a savepoint, in the schema of this store. Afterwards restores the transaction's
    /// `search_path`. Sets no timeouts: only the caller's own timeouts, such as `lock_timeout`, limit how long `work`
    /// waits for other transactions. Rolls the savepoint back if `work` fails, or if `is_kept` returns false for the
    /// result of `work`.
    async fn inside<T, W>(
        &self,
        transaction: HostTransaction<'_>,
        is_kept: impl Fn(&T) -> bool,
        work: W,
    ) -> Result<T, StoreError>
    where
        W: for<'s> FnOnce(&'s mut Session<'_>) -> BoxFuture<'s, Result<T, StoreError>>,
    {
        #[cfg_attr(not(feature = "sqlite"), expect(irrefutable_let_patterns, reason = "SQLite is another variant"))]
        let HostTransaction::Postgres(connection) = transaction else { return Err(elsewhere()) };
        connection.execute("SAVEPOINT delivery").await.map_err(|error| {
            // `25P01` is `no_active_sql_transaction`.
            let is_alone = error
                .as_database_error()
                .and_then(sqlx::error::DatabaseError::code)
                .is_some_and(|code| code == "25P01");
            if is_alone { StoreError::refused(error) } else { store_error(error) }
        })?;
        let done = self.in_schema(&mut Session::Host(connection), work).await;
        let end = match &done {
            Ok(done) if is_kept(done) => "RELEASE SAVEPOINT delivery",
            _ => "ROLLBACK TO SAVEPOINT delivery; RELEASE SAVEPOINT delivery",
        };
        let ended = sqlx::raw_sql(end).execute(connection).await.map_err(store_error);
        let done = done?;
        ended.map(|_| done)
    }

    async fn in_schema<T, W>(&self, session: &mut Session<'_>, work: W) -> Result<T, StoreError>
    where
        W: for<'s> FnOnce(&'s mut Session<'_>) -> BoxFuture<'s, Result<T, StoreError>>,
    {
        const ENTER: &str = "WITH host AS MATERIALIZED (SELECT current_setting('search_path') AS path) \
            SELECT path FROM host WHERE set_config('search_path', $1, true) IS NOT NULL";
        const LEAVE: &str = "SELECT set_config('search_path', $1, true)";
        let enter = session.scalar::<String>(ENTER).bind(self.sessions.schema());
        let path = enter.fetch_one(&mut **session).await.map_err(store_error)?;
        self.sessions.ensure_durable(session).await?;
        let done = work(session).await?;
        session.query(LEAVE).bind(path).execute(&mut **session).await.map_err(store_error)?;
        Ok(done)
    }
}

async fn operate(session: &mut Session<'_>, operation: Operation) -> Result<Answer, StoreError> {
    let needs = needs([&operation]);
    for _ in 0..LOOKS {
        let mut loaded = Loaded::absent(&needs);
        let mut rows = load::locked_keys(session, &needs.keys).await?;
        rows.extend(load::keys(session, &needs.new).await?);
        rows.extend(load::purchases(session, &needs.purchases).await?);
        for row in rows {
            loaded.insert(row);
        }
        alias::load(session, &needs, &mut loaded).await?;
        let planned = plan([&operation], loaded, &mut next_block(session).await?)?;
        let persisted = persist(session, &planned.writes, true).await?;
        let is_written = |unit: usize| persisted.get(unit) == Some(&Persisted::Written);
        let is_atomic = planned.writes.is_atomic();
        if let Some(Some(answer)) = planned.answers(is_written).pop() {
            return Ok(answer);
        }
        if is_atomic {
            // Some of the writes may already be in the transaction. The error below makes `inside` roll them back.
            break;
        }
    }
    Err(StoreError::Conflict { source: None })
}
