//! Issuing keys inside a transaction of the host application.

use sqlx::Executor;
use sqlx::postgres::PgConnection;

use super::error::store_error;
use super::numbers::next_block;
use super::persist::persist;
use super::schema::ensure_durable;
use super::session::Session;
use super::{PostgresStore, load};
use crate::ledger::operation::{needs, plan};
use crate::ledger::plan::Loaded;
use crate::ledger::{Answer, Issue, NewSale, Operation};
use crate::store::{Persisted, StoreError};

/// The number of times that issuing is tried. The first time fails if another transaction commits the same order in the
/// meantime.
const LOOKS: usize = 2;

impl PostgresStore {
    /// Issues a key inside a transaction of the host application. If the transaction is committed, the purchase, the
    /// key and the message are committed with it; otherwise nothing of them remains. `transaction` must be a connection
    /// to this store's database, with a transaction open. If the order already has a key, for example from a webhook,
    /// returns that key.
    ///
    /// The work is done within a savepoint. After an error nothing of the work remains, and the transaction can go on
    /// as before, with its own `search_path`. If another transaction is inserting the same order, this method waits for
    /// it, as long as the `lock_timeout` of `transaction` allows.
    ///
    /// If the future is dropped before it ends, roll the transaction back: part of the work may have been done.
    ///
    /// Before, [prepare the sale](crate::Delivery::prepare) with the service. After the commit, [tell the
    /// service](crate::Delivery::committed) about it:
    ///
    /// ```no_run
    /// # async fn example(
    /// #     pool: sqlx::PgPool,
    /// #     delivery: delivery_core::Delivery,
    /// #     store: delivery_core::store::PostgresStore,
    /// #     order: delivery_core::order::Order,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let sale = delivery.prepare(order).await?;
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("INSERT INTO shop_order …").execute(&mut *transaction).await?;
    /// let issue = store.issue_in(&mut transaction, &sale).await?;
    /// transaction.commit().await?;
    /// let issued = delivery.committed(issue);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`StoreError::Refused`] if no transaction is open.
    /// - [`StoreError::Conflict`] if a lock was not released in time.
    /// - [`StoreError::Conflict`] also if `transaction` is repeatable read or serializable, and another transaction has
    ///   issued the key in the meantime.
    ///
    /// Nothing was written after an error.
    pub async fn issue_in(&self, transaction: &mut PgConnection, sale: &NewSale) -> Result<Issue, StoreError> {
        transaction.execute("SAVEPOINT delivery_issue").await.map_err(|error| {
            // no_active_sql_transaction
            let is_alone = error
                .as_database_error()
                .and_then(sqlx::error::DatabaseError::code)
                .is_some_and(|code| code == "25P01");
            if is_alone { StoreError::refused(error) } else { store_error(error) }
        })?;
        let issued = self.issue_inside(&mut Session::Host(transaction), sale).await;
        let end = match issued {
            Ok(_) => "RELEASE SAVEPOINT delivery_issue",
            Err(_) => "ROLLBACK TO SAVEPOINT delivery_issue; RELEASE SAVEPOINT delivery_issue",
        };
        let ended = sqlx::raw_sql(end).execute(transaction).await.map_err(store_error);
        let issue = issued?;
        ended.map(|_| issue)
    }

    async fn issue_inside(&self, session: &mut Session<'_>, sale: &NewSale) -> Result<Issue, StoreError> {
        const ENTER: &str = "WITH host AS MATERIALIZED (SELECT current_setting('search_path') AS path) \
            SELECT path FROM host WHERE set_config('search_path', $1, true) IS NOT NULL";
        const LEAVE: &str = "SELECT set_config('search_path', $1, true)";
        let enter = session.scalar::<String>(ENTER).bind(self.sessions.schema());
        let path = enter.fetch_one(&mut **session).await.map_err(store_error)?;
        ensure_durable(session).await?;
        let issue = issue(session, sale).await?;
        session.query(LEAVE).bind(path).execute(&mut **session).await.map_err(store_error)?;
        Ok(issue)
    }
}

async fn issue(session: &mut Session<'_>, sale: &NewSale) -> Result<Issue, StoreError> {
    for _ in 0..LOOKS {
        let operation = Operation::Issue(Box::new(sale.clone()));
        let needs = needs([&operation]);
        let mut loaded = Loaded::absent(&needs);
        for row in load::keys(session, &needs.new).await? {
            loaded.insert(row);
        }
        for row in load::purchases(session, &needs.purchases).await? {
            loaded.insert(row);
        }
        let planned = plan([&operation], loaded, &mut next_block(session).await?)?;
        let persisted = persist(session, &planned.writes, true).await?;
        let is_written = |unit: usize| persisted.get(unit) == Some(&Persisted::Written);
        if let Some(Some(Answer::Issued(issue))) = planned.answers(is_written).pop() {
            return Ok(issue);
        }
    }
    Err(StoreError::Conflict { source: None })
}
