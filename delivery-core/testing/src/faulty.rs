//! A store that fails on demand.

mod catalog;
mod pages;

use std::collections::VecDeque;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use delivery_core::email::Email;
use delivery_core::key::{Alias, Fingerprint, Key, KeyId};
use delivery_core::ledger::{
    Action, Answer, Customer, Deal, Edit, FailedMessage, InboxEvent, Lease, LeasedMessage, MessageNumber, Operation,
    ReferenceKind, Route,
};
use delivery_core::order::{OrderId, Source};
use delivery_core::product::RefName;
use delivery_core::store::{
    Aliases, AuditEntry, AuditQuery, Backend, Backlog, ExpiryScan, Figures, Inbox, InboxQuery, KeyQuery, Ledger,
    MessageQuery, Office, Page, Records, Requests, StoreError, StoredMessage, Use, UseId,
};

/// What happens to a call of a [`Faulty`] store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Fault {
    /// The call succeeds or fails as the store decides.
    #[default]
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

    #[expect(clippy::unnecessary_wraps, reason = "`port!` asks for each part of a store alike")]
    fn whole(&self) -> Result<&S, StoreError> {
        Ok(&self.inner)
    }
}

impl<S: Ledger> Faulty<S> {
    fn kept(&self) -> Result<&dyn Office, StoreError> {
        self.inner.office().ok_or(StoreError::Unsupported)
    }
}

/// Implements a port. Each method calls the method of the same name of a part of the wrapped store, unless a fault
/// prevents the call. The word after `by` is the function that returns that part.
macro_rules! port {
    (
        impl<S: $bound:ident> $port:ident by $part:ident {
            $($method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+
        }
        $(and { $($other:tt)+ })?
    ) => {
        #[async_trait::async_trait]
        impl<S: $bound> $port for Faulty<S> {
            $(async fn $method(&self, $($argument: $type),*) -> Result<$answer, StoreError> {
                self.call(self.$part()?.$method($($argument),*)).await
            })+

            $($($other)+)?
        }
    };
}
use port;

port! {
    impl<S: Ledger> Ledger by whole {
        submit(operation: Operation) -> Answer;
        find(id: KeyId) -> Option<Key>;
    }
}

port! {
    impl<S: Ledger> Backend by whole {
        register(keyring: &[Fingerprint]) -> ();
        search(query: &KeyQuery) -> Page<Key, KeyId>;
        claim_messages(now: DateTime<Utc>, lease_until: DateTime<Utc>, limit: usize) -> Vec<LeasedMessage>;
        renew_leases(leases: &[Lease], lease_until: DateTime<Utc>) -> ();
        failed_messages(limit: usize) -> Vec<FailedMessage>;
        retry_message(message: MessageNumber, edit: Edit) -> bool;
        retry_messages(route: Option<Route>, now: DateTime<Utc>) -> u64;
        history(id: KeyId, before: Option<UseId>, limit: usize) -> Page<Use, UseId>;
        prune_history(before: DateTime<Utc>) -> u64;
        ping() -> ();
    }
    and {
        fn office(&self) -> Option<&dyn Office> {
            self.inner.office().map(|_| self as &dyn Office)
        }

        /// Closes the store, regardless of the script.
        async fn close(&self) {
            self.inner.close().await;
        }
    }
}

port! {
    impl<S: Ledger> Requests by kept {
        prune_requests(before: DateTime<Utc>) -> u64;
    }
}

port! {
    impl<S: Ledger> Aliases by kept {
        alias(any_of: &[Alias]) -> Option<KeyId>;
        has_aliases() -> bool;
    }
}

port! {
    impl<S: Ledger> Inbox by kept {
        claim_events(now: DateTime<Utc>, lease_until: DateTime<Utc>, limit: usize) -> Vec<InboxEvent>;
        retry_events(source: Option<&Source>, customer: Option<&OrderId>, now: DateTime<Utc>) -> u64;
        events(query: &InboxQuery) -> Page<InboxEvent, i64>;
        customer(source: &Source, reference: &OrderId) -> Option<Email>;
        customers(email: &Email) -> Vec<Customer>;
        deal(source: &Source, kind: ReferenceKind, name: &OrderId) -> Option<Deal>;
        dismiss(source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> ();
        is_dismissed(source: &Source, name: &RefName) -> bool;
        prune_inbox(before: DateTime<Utc>) -> u64;
    }
}

port! {
    impl<S: Ledger> Records by kept {
        messages(query: &MessageQuery) -> Page<StoredMessage, MessageNumber>;
        audit(query: &AuditQuery) -> Page<AuditEntry, i64>;
        log(action: Action, edit: Edit) -> ();
        figures(since: DateTime<Utc>, now: DateTime<Utc>) -> Figures;
        backlog() -> Backlog;
        notify_expiring(scan: ExpiryScan) -> usize;
        mark_expired(now: DateTime<Utc>, most: usize) -> usize;
        erase(email: &Email, pseudonym: &Email, edit: Edit) -> Vec<KeyId>;
    }
}
