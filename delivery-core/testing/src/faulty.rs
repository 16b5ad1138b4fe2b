//! A store that fails when it is told to.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use delivery_core::key::{Change, Fingerprint, Key, KeyId, NewKey};
use delivery_core::store::{
    Backend, FailedMessage, History, Issue, KeyQuery, Lease, LeasedMessage, Ledger, MessageId, MessageNumber, Outcome,
    Page, Refused, Route, StoreError, Use, UseId,
};

/// What happens to a call of a [`Faulty`] store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// It does what it should.
    None,
    /// It fails with this error, and nothing has happened.
    Before(StoreError),
    /// It happens, and is answered with this error: [`StoreError::Unknown`], or a lie.
    After(StoreError),
    /// It never answers, and nothing has happened.
    Hang,
    /// It panics, and nothing has happened.
    Panic,
}

/// A ledger that fails by a script, by chance, or always: to see what your code does then.
///
/// ```
/// use std::sync::Arc;
/// use delivery_core::store::{Backend, MemoryStore, StoreError};
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
    /// Chance, and one call in how many fails.
    chance: Option<(StdRng, u32)>,
}

impl<S> Faulty<S> {
    /// A store that does what it should, until it is told otherwise.
    pub fn new(inner: Arc<S>) -> Self {
        let plan = Plan { script: VecDeque::new(), otherwise: Fault::None, chance: None };
        Self { inner, plan: Mutex::new(plan) }
    }

    /// What happens to the next call, after those already scripted.
    pub fn then(&self, fault: Fault) {
        self.plan().script.push_back(fault);
    }

    /// What happens to every call when the script is over.
    pub fn otherwise(&self, fault: Fault) {
        self.plan().otherwise = fault;
    }

    /// Lets one call in `one_in` fail, by chance from this seed: half of them before they happen, with
    /// [`StoreError::Unavailable`], half of them after, with [`StoreError::Unknown`].
    pub fn by_chance(&self, seed: u64, one_in: u32) {
        self.plan().chance = Some((StdRng::seed_from_u64(seed), one_in.max(1)));
    }

    /// The store without its faults.
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
            Fault::Panic => panic!("scripted to panic"),
        }
    }
}

#[async_trait]
impl<S: Ledger> Ledger for Faulty<S> {
    async fn issue(&self, key: NewKey, message: Option<MessageId>) -> Result<Issue, StoreError> {
        self.call(self.inner.issue(key, message)).await
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.call(self.inner.find(id)).await
    }

    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refused>>, StoreError> {
        self.call(self.inner.change(id, change)).await
    }

    async fn complete_message(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.call(self.inner.complete_message(lease, outcome)).await
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

    async fn retry_message(&self, message: MessageNumber, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.call(self.inner.retry_message(message, now)).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.call(self.inner.retry_messages(route, now)).await
    }

    fn uses(&self) -> Option<&dyn History> {
        self.inner.uses().map(|_| self as &dyn History)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.call(self.inner.ping()).await
    }

    /// Closes the store, whatever was scripted.
    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl<S: Ledger> History for Faulty<S> {
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let Some(uses) = self.inner.uses() else { return Err(StoreError::Unsupported) };
        self.call(uses.history(id, before, limit)).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let Some(uses) = self.inner.uses() else { return Err(StoreError::Unsupported) };
        self.call(uses.prune_history(before)).await
    }
}
