//! Work inside a transaction of the host application.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgConnection, PgTransaction};

#[cfg(feature = "sqlite")]
use super::SqliteTransaction;
use super::StoreError;
use crate::key::Key;
use crate::ledger::{ChangeKey, Edit, Issue, NewSale, Refused};
use crate::product::{NewProduct, Product};

/// An open transaction of the host application, on the database of the service's store. On PostgreSQL it is created
/// from sqlx's connection or transaction, on SQLite from a [`SqliteTransaction`](super::SqliteTransaction).
#[derive(Debug)]
#[non_exhaustive]
pub enum HostTransaction<'t> {
    /// A transaction that [`SqliteStore::transaction`](super::SqliteStore::transaction) began.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteTransaction<'t>),
    /// A connection on which a transaction is open.
    #[cfg(feature = "postgres")]
    Postgres(&'t mut PgConnection),
}

#[cfg(feature = "sqlite")]
impl<'t> From<&'t mut SqliteTransaction<'_>> for HostTransaction<'t> {
    fn from(transaction: &'t mut SqliteTransaction<'_>) -> Self {
        Self::Sqlite(transaction.reborrow())
    }
}

#[cfg(feature = "postgres")]
impl<'t> From<&'t mut PgConnection> for HostTransaction<'t> {
    fn from(connection: &'t mut PgConnection) -> Self {
        Self::Postgres(connection)
    }
}

#[cfg(feature = "postgres")]
impl<'t> From<&'t mut PgTransaction<'_>> for HostTransaction<'t> {
    fn from(transaction: &'t mut PgTransaction<'_>) -> Self {
        Self::Postgres(transaction)
    }
}

impl<'t> From<&'t mut HostTransaction<'_>> for HostTransaction<'t> {
    fn from(transaction: &'t mut HostTransaction<'_>) -> Self {
        match transaction {
            #[cfg(feature = "sqlite")]
            HostTransaction::Sqlite(transaction) => transaction.into(),
            #[cfg(feature = "postgres")]
            HostTransaction::Postgres(connection) => Self::Postgres(connection),
        }
    }
}

/// A store that works inside transactions of the host application. `SqliteStore` and `PostgresStore` are such stores.
/// Host applications do not call these methods; they call [`Delivery::issue_in`](crate::Delivery::issue_in) and the
/// other methods of [`Delivery`](crate::Delivery) that take a transaction.
///
/// Each method takes effect completely or not at all. After an error the transaction can continue, unless the database
/// has ended it. Besides the usual errors of a store, the methods return these:
///
/// * [`StoreError::Refused`] if no transaction is open, or if the transaction is on another store
/// * [`StoreError::Conflict`] if a lock was not released in time
/// * [`StoreError::Conflict`] on PostgreSQL if another transaction has changed the same rows, and this transaction is
///   repeatable read or serializable
///
/// # To ensure correctness
///
/// * Before the commit, show the changes only to the transaction itself. No other reader may see them, not even through
///   a cache.
/// * Leave no change behind if the transaction is rolled back, or is rolled back to a savepoint before the change.
#[async_trait]
pub trait HostTransactions: Debug + Send + Sync {
    /// Issues a key, as [`Ledger::issue`](super::Ledger::issue) does.
    ///
    /// # Errors
    ///
    /// See [above](Self).
    async fn issue(&self, transaction: HostTransaction<'_>, sale: &NewSale) -> Result<Issue, StoreError>;

    /// Changes a key, as [`Ledger::change`](super::Ledger::change) does.
    ///
    /// # Errors
    ///
    /// See [above](Self).
    async fn change(
        &self,
        transaction: HostTransaction<'_>,
        change: ChangeKey,
    ) -> Result<Option<Result<Key, Refused>>, StoreError>;

    /// Adds a product, as [`CatalogEditor::add_product`](super::CatalogEditor::add_product) does.
    ///
    /// # Errors
    ///
    /// See [above](Self).
    async fn add_product(
        &self,
        transaction: HostTransaction<'_>,
        product: NewProduct,
        edit: Edit,
    ) -> Result<Arc<Product>, StoreError>;

    /// Called after the commit of a transaction in which a product was added, so that the store can empty its caches.
    fn committed(&self);
}

/// The error for a transaction that is not on the store's database.
pub(super) fn elsewhere() -> StoreError {
    StoreError::refused(io::Error::other("the transaction is not on the database of this store"))
}
