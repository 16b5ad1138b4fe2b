//! Operations inside a transaction of the host application.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Delivery, Error, Issued};
use crate::key::{Actor, Change, Key, KeyId};
use crate::ledger::{ChangeKey, NewSale};
use crate::product::{NewProduct, Product, ProductId};
use crate::store::{HostTransaction, HostTransactions, StoreError};
use crate::throttle::log_seldom;

/// The result of an operation inside a transaction of the host application, before the transaction is committed. It
/// dereferences to `T`.
///
/// After the commit, call [`committed`](Self::committed), which notifies observers and sends messages at once. Without
/// this call, messages are sent within a second, and observers are not notified. After a rollback, call
/// [`rolled_back`](Self::rolled_back). On SQLite, call `rolled_back` inside the closure that runs the transaction,
/// before the closure returns its error. Dropping the value, for example by `?`, has the effect of `rolled_back`, and
/// logs a warning in case `committed` was forgotten.
#[must_use = "call `committed` after the commit, or `rolled_back`"]
pub struct Uncommitted<T> {
    result: T,
    tell: Tell,
}

/// The work that remains after the commit; `None` after `committed` or `rolled_back`.
struct Tell(Option<Box<dyn FnOnce() + Send + Sync>>);

impl<T> Uncommitted<T> {
    fn new(result: T, tell: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { result, tell: Tell(Some(Box::new(tell))) }
    }

    /// Tells the service that the transaction is committed. Returns the result.
    pub fn committed(mut self) -> T {
        if let Some(tell) = self.tell.0.take() {
            tell();
        }
        self.result
    }

    /// Tells the service that the transaction was rolled back. Observers are not notified.
    pub fn rolled_back(mut self) {
        self.tell.0 = None;
    }
}

impl<T> Deref for Uncommitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.result
    }
}

impl<T: fmt::Debug> fmt::Debug for Uncommitted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Uncommitted").field(&self.result).finish()
    }
}

impl Drop for Tell {
    fn drop(&mut self) {
        if self.0.is_some() {
            log_seldom!(
                warn,
                "what was done in a transaction was dropped without `committed`: if it was committed, observers are not told"
            );
        }
    }
}

/// What the service does inside a transaction of the host application. If the transaction is committed, everything is
/// committed with it, such as the key, its messages and the audit entry. If it is rolled back, nothing of this remains.
///
/// A method that returns an error has changed nothing, and the transaction can go on unless the database has ended it.
/// If a future is dropped before it completes, roll the transaction back.
///
/// On PostgreSQL the transaction is a `&mut PgConnection` or a `&mut Transaction<Postgres>` of sqlx.
///
/// - It must be in the database of the store. This is not checked: in another database with the same schema, the method
///   changes that database.
/// - No method changes the `search_path` of the transaction.
/// - If another transaction has locked something that a method needs, the method waits as long as the `lock_timeout` of
///   the transaction allows.
/// - A key that was used or changed stays locked until the transaction ends. After
///   [`add_product_in`](Self::add_product_in), the list of products stays locked too.
/// - Transactions that use several keys should use them in the same order, because otherwise two of them can wait for
///   each other until one fails.
///
/// On SQLite the transaction is the [`SqliteTransaction`](crate::store::SqliteTransaction) that
/// `SqliteStore::transaction` passes to its closure.
///
/// # Errors
///
/// Every method can fail with [`Error::Store`]. Besides the usual errors of a store, it can contain:
///
/// - [`StoreError::Refused`] if no transaction is open, or if it is on another kind of database or in another SQLite
///   file.
/// - [`StoreError::Conflict`] if a lock was not released in time, or if the transaction is repeatable read or
///   serializable and another transaction has changed the same rows in the meantime.
/// - [`StoreError::Unsupported`] if the store cannot work inside transactions of the host application.
impl Delivery {
    /// Issues a key that was [prepared](Self::prepare) before the transaction. If the order already has a key for the
    /// product, for example because it was also reported to the order endpoint, returns that key.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     pool: sqlx::PgPool,
    /// #     delivery: delivery_core::Delivery,
    /// #     order: delivery_core::order::Order,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let sale = delivery.prepare(order).await?;
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("INSERT INTO shop_order …").execute(&mut *transaction).await?;
    /// let issued = delivery.issue_in(&mut transaction, &sale).await?;
    /// transaction.commit().await?;
    /// let issued = issued.committed();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Store`], as for every method that works in a transaction of the host application.
    pub async fn issue_in<'t>(
        &self,
        transaction: impl Into<HostTransaction<'t>>,
        sale: &NewSale,
    ) -> Result<Uncommitted<Issued>, Error> {
        let issue = self.host_transactions()?.issue(transaction.into(), sale).await?;
        let (issued, delivery) = (self.issued(&issue), self.clone());
        Ok(Uncommitted::new(issued, move || delivery.tell_issued(&issue)))
    }

    /// Counts one use of a verified key for `product`, as [`count_use`](Self::count_use) does. If the use is refused,
    /// observers are notified at once, even if the transaction is rolled back.
    ///
    /// # Errors
    ///
    /// As for [`count_use`](Self::count_use), and [`Error::Store`] as for every method that works in a transaction of
    /// the host application.
    pub async fn use_in<'t>(
        &self,
        transaction: impl Into<HostTransaction<'t>>,
        key: KeyId,
        product: ProductId,
    ) -> Result<Uncommitted<Key>, Error> {
        let change = ChangeKey { key, change: self.inner.use_of(product), messages: Vec::new() };
        let used = self.change_key_in(transaction.into(), change).await;
        let used = used.inspect_err(|error| self.inner.note_refusal(Some(key), error))?;
        let (inner, told) = (self.inner.clone(), used.clone());
        Ok(Uncommitted::new(used, move || inner.note_use(key, &Ok(told))))
    }

    /// Revokes a key, restores it, or changes its terms or address, as [`change`](Self::change) does. The buyer gets no
    /// e-mail about the change, not even about a refund: such e-mails are sent only for refunds that a platform
    /// reports.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     pool: sqlx::PgPool,
    /// #     delivery: delivery_core::Delivery,
    /// #     key: delivery_core::key::KeyId,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use delivery_core::key::{Change, Reason};
    ///
    /// let mut refund = pool.begin().await?;
    /// sqlx::query("UPDATE shop_order SET refunded = true …").execute(&mut *refund).await?;
    /// let change = Change::Revoke { at: delivery.now(), reason: Some(Reason::refunded()), by: "refunds".parse()? };
    /// let revoked = delivery.change_in(&mut refund, key, change).await?;
    /// refund.commit().await?;
    /// revoked.committed();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`change`](Self::change), and [`Error::Store`] as for every method that works in a transaction of the
    /// host application.
    pub async fn change_in<'t>(
        &self,
        transaction: impl Into<HostTransaction<'t>>,
        key: KeyId,
        change: Change,
    ) -> Result<Uncommitted<Key>, Error> {
        let (kind, event) = match Self::announced(&change) {
            Ok(announced) => announced,
            Err(product) => return self.use_in(transaction, key, product).await,
        };
        let messages = self.webhooks(kind)?;
        let key = self.change_key_in(transaction.into(), ChangeKey { key, change, messages }).await?;
        let (inner, told) = (self.inner.clone(), key.clone());
        Ok(Uncommitted::new(key, move || {
            inner.wake.notify_one();
            inner.observers.tell(|| event(told));
        }))
    }

    /// Adds a product, as [`Actor::admin`]. Sales of the product can be prepared once the transaction is committed.
    /// [`committed`](Uncommitted::committed) then retries platform events that wait for the seller, because they may
    /// have waited for this product.
    ///
    /// # Errors
    ///
    /// As for [`Desk::add_product`](super::Desk::add_product), and [`Error::Store`] as for every method that works in a
    /// transaction of the host application. The error is also [`StoreError::Unsupported`] if the host application
    /// manages products itself.
    pub async fn add_product_in<'t>(
        &self,
        transaction: impl Into<HostTransaction<'t>>,
        product: NewProduct,
    ) -> Result<Uncommitted<Arc<Product>>, Error> {
        let editor = self.inner.editor.as_ref().and_then(|editor| editor.in_host_transactions());
        let edit = self.desk(&Actor::admin()).edit();
        let added = editor.ok_or(StoreError::Unsupported)?.add_product(transaction.into(), product, edit).await?;
        let delivery = self.clone();
        Ok(Uncommitted::new(added, move || {
            if let Some(store) = delivery.inner.editor.as_ref().and_then(|editor| editor.in_host_transactions()) {
                store.committed();
            }
            // Without a Tokio runtime, leave the events to the worker, which retries them within twelve hours.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async move { delivery.retry_events(None, None).await });
            }
        }))
    }

    async fn change_key_in(&self, transaction: HostTransaction<'_>, change: ChangeKey) -> Result<Key, Error> {
        Ok(self.host_transactions()?.change(transaction, change).await?.ok_or(Error::UnknownKey)??)
    }

    fn host_transactions(&self) -> Result<&dyn HostTransactions, StoreError> {
        self.inner.ledger.host_transactions().ok_or(StoreError::Unsupported)
    }
}
