//! A store that fails on demand.

mod files;
mod pages;

use std::collections::VecDeque;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use delivery_core::HostRef;
use delivery_core::email::Email;
use delivery_core::key::{Fingerprint, Key, KeyId};
use delivery_core::ledger::{
    Action, Answer, Customer, Deal, Edit, FailedMessage, InboxEvent, Lease, LeasedMessage, MessageNumber, Operation,
    ReferenceKind, Route,
};
use delivery_core::order::{OrderId, Source};
use delivery_core::post::{NewPost, Post, PostId};
use delivery_core::product::{Listing, NewProduct, Product, ProductId, RefName};
use delivery_core::store::{
    AuditEntry, AuditQuery, Backend, Backlog, Catalog, CatalogEditor, ExpiryScan, Figures, Files, Inbox, InboxQuery,
    KeyQuery, Ledger, MessageQuery, Office, Page, PostQuery, Posts, ProductNames, Records, Requests, StoreError,
    StoredMessage, Use, UseId,
};

/// What happens to a call of a [`Faulty`] store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The call succeeds or fails as the store decides.
    None,
    /// The call fails with this error and has no effect.
    Before(StoreError),
    /// The call takes effect, but returns this error; if the store itself fails, the call returns the store's error.
    /// Of all errors, [`StoreError::Unknown`] is the one that real stores return in this situation.
    After(StoreError),
    /// The call never returns and has no effect.
    Hang,
    /// The call panics and has no effect.
    Panic,
}

/// A store that fails by a script, by chance or always, to test how your code handles failures.
///
/// ```
/// use std::sync::Arc;
/// use delivery_core::store::{Backend, StoreError};
/// use delivery_testing::MemoryStore;
/// use delivery_testing::{Fault, Faulty};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let store = Faulty::new(Arc::new(MemoryStore::new()));
/// store.then(Fault::Before(StoreError::unavailable("switched off")));
/// assert!(store.ping().await.is_err());
/// assert!(store.ping().await.is_ok());
/// # }
/// ```
#[derive(Debug)]
pub struct Faulty<S> {
    inner: Arc<S>,
    plan: Mutex<Plan>,
}

#[derive(Debug)]
struct Plan {
    script: VecDeque<Fault>,
    otherwise: Fault,
    /// The random generator, and the number of calls of which one fails on average.
    chance: Option<(StdRng, u32)>,
}

impl<S> Faulty<S> {
    /// Wraps a store. It works without faults until a fault is set.
    pub fn new(inner: Arc<S>) -> Self {
        let plan = Plan { script: VecDeque::new(), otherwise: Fault::None, chance: None };
        Self { inner, plan: Mutex::new(plan) }
    }

    /// Scripts what happens to the next call, after those already scripted.
    pub fn then(&self, fault: Fault) {
        self.plan().script.push_back(fault);
    }

    /// Sets what happens to every call once the script has ended.
    pub fn otherwise(&self, fault: Fault) {
        self.plan().otherwise = fault;
    }

    /// Removes all faults: every later call reaches the store.
    pub fn heal(&self) {
        *self.plan() = Plan { script: VecDeque::new(), otherwise: Fault::None, chance: None };
    }

    /// Makes on average one call in `one_in` fail once the script has ended. `seed` determines which ones. Half of
    /// these calls have no effect and return [`StoreError::Unavailable`]. The other half take effect and return
    /// [`StoreError::Unknown`].
    pub fn by_chance(&self, seed: u64, one_in: u32) {
        self.plan().chance = Some((StdRng::seed_from_u64(seed), one_in.max(1)));
    }

    /// Returns the wrapped store. Direct calls to it meet no faults.
    #[must_use]
    pub fn inner(&self) -> &Arc<S> {
        &self.inner
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Fault {
        let mut plan = self.plan();
        if let Some(fault) = plan.script.pop_front() {
            return fault;
        }
        if let Some((chance, one_in)) = &mut plan.chance
            && chance.random_ratio(1, *one_in)
        {
            return if chance.random_bool(0.5) {
                Fault::Before(StoreError::unavailable("by chance"))
            } else {
                Fault::After(StoreError::Unknown { source: None })
            };
        }
        plan.otherwise.clone()
    }

    async fn call<T>(&self, work: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        match self.next() {
            Fault::None => work.await,
            Fault::Before(error) => Err(error),
            Fault::After(error) => work.await.and(Err(error)),
            Fault::Hang => std::future::pending().await,
            // Runs no panic hook, so that the log of a test shows only the panics that matter.
            Fault::Panic => resume_unwind(Box::new("scripted to panic")),
        }
    }
}

#[async_trait]
impl<S: Ledger> Ledger for Faulty<S> {
    async fn submit(&self, operation: Operation) -> Result<Answer, StoreError> {
        self.call(self.inner.submit(operation)).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.call(self.inner.find(id)).await
    }
}

#[async_trait]
impl<S: Ledger> Backend for Faulty<S> {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        self.call(self.inner.register(keyring)).await
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        self.call(self.inner.search(query)).await
    }

    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        self.call(self.inner.claim_messages(now, lease_until, limit)).await
    }

    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        self.call(self.inner.renew_leases(leases, lease_until)).await
    }

    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        self.call(self.inner.failed_messages(limit)).await
    }

    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError> {
        self.call(self.inner.retry_message(message, edit)).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.call(self.inner.retry_messages(route, now)).await
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        self.call(self.inner.history(id, before, limit)).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.call(self.inner.prune_history(before)).await
    }

    fn office(&self) -> Option<&dyn Office> {
        self.inner.office().map(|_| self as &dyn Office)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.call(self.inner.ping()).await
    }

    /// Closes the store, regardless of the script.
    async fn close(&self) {
        self.inner.close().await;
    }
}

impl<S: Ledger> Faulty<S> {
    fn kept(&self) -> Result<&dyn Office, StoreError> {
        self.inner.office().ok_or(StoreError::Unsupported)
    }
}

#[async_trait]
impl<S: Ledger> Requests for Faulty<S> {
    async fn prune_requests(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.call(self.kept()?.prune_requests(before)).await
    }
}

#[async_trait]
impl<S: Ledger> Inbox for Faulty<S> {
    async fn claim_events(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        self.call(self.kept()?.claim_events(now, lease_until, limit)).await
    }

    async fn retry_events(
        &self,
        source: Option<&Source>,
        customer: Option<&OrderId>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        self.call(self.kept()?.retry_events(source, customer, now)).await
    }

    async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
        self.call(self.kept()?.events(query)).await
    }

    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError> {
        self.call(self.kept()?.customer(source, reference)).await
    }

    async fn customers(&self, email: &Email) -> Result<Vec<Customer>, StoreError> {
        self.call(self.kept()?.customers(email)).await
    }

    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError> {
        self.call(self.kept()?.deal(source, kind, name)).await
    }

    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError> {
        self.call(self.kept()?.dismiss(source, name, is_dismissed, edit)).await
    }

    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError> {
        self.call(self.kept()?.is_dismissed(source, name)).await
    }

    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.call(self.kept()?.prune_inbox(before)).await
    }
}

#[async_trait]
impl<S: Ledger> Records for Faulty<S> {
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        self.call(self.kept()?.messages(query)).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        self.call(self.kept()?.audit(query)).await
    }

    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError> {
        self.call(self.kept()?.log(action, edit)).await
    }

    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
        self.call(self.kept()?.figures(since, now)).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.call(self.kept()?.backlog()).await
    }

    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError> {
        self.call(self.kept()?.notify_expiring(scan)).await
    }

    async fn mark_expired(&self, now: DateTime<Utc>, most: usize) -> Result<usize, StoreError> {
        self.call(self.kept()?.mark_expired(now, most)).await
    }

    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError> {
        self.call(self.kept()?.erase(email, pseudonym, edit)).await
    }
}

#[async_trait]
impl<S: ProductNames> ProductNames for Faulty<S> {
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError> {
        self.call(self.inner.product_named(source, name)).await
    }
}

#[async_trait]
impl<S: Catalog> Catalog for Faulty<S> {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        self.call(self.inner.product(id)).await
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        self.call(self.inner.products()).await
    }
}

#[async_trait]
impl<S: CatalogEditor> CatalogEditor for Faulty<S> {
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        self.call(self.inner.add_product(product, edit)).await
    }

    async fn add_product_once(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        self.call(self.inner.add_product_once(product, edit)).await
    }

    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        self.call(self.inner.product_called(host_ref)).await
    }

    async fn archived_products(&self) -> Result<Vec<Listing>, StoreError> {
        self.call(self.inner.archived_products()).await
    }

    async fn update_product(
        &self,
        id: ProductId,
        product: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        self.call(self.inner.update_product(id, product, was, edit)).await
    }

    async fn set_archived(
        &self,
        id: ProductId,
        archived: bool,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        self.call(self.inner.set_archived(id, archived, edit)).await
    }

    fn files(&self) -> Option<&dyn Files> {
        self.inner.files().map(|_| self as _)
    }
}

#[async_trait]
impl<S: Posts> Posts for Faulty<S> {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        self.call(self.inner.posts(query)).await
    }

    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        self.call(self.inner.add_post(post, edit)).await
    }

    async fn add_post_once(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        self.call(self.inner.add_post_once(post, edit)).await
    }

    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        self.call(self.inner.post(id)).await
    }

    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError> {
        self.call(self.inner.update_post(id, post, was, edit)).await
    }

    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError> {
        self.call(self.inner.delete_post(id, edit)).await
    }
}
