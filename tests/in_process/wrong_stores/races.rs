//! Stores that are right until two calls meet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::key::{Fingerprint, Key, KeyId};
use delivery_core::ledger::{
    Edit, FailedMessage, Lease, LeasedMessage, Loaded, MessageNumber, Needs, Numbers, PurchaseId, Route, Writes,
};
use delivery_core::store::{Attempt, Backend, KeyQuery, Office, Page, Persisted, Storage, StoreError, Use, UseId};
use delivery_testing::{MemoryStore, conformance::LEDGER};
use futures_util::FutureExt;

use super::records::right;
use super::{note_panics, noticed};

/// What a store does while another call is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Race {
    /// It looks for conflicts under its lock, lets the lock go, and writes.
    LetsTheLockGo,
    /// It writes the last use of a key without looking at the version.
    TrustsTheLastUse,
    /// It does not look whether the purchase has a key.
    SellsTwice,
}

#[derive(Debug)]
struct Racy {
    race: Race,
    inner: MemoryStore,
    /// The versions of the keys, and which purchases have one.
    known: Mutex<Known>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    versions: HashMap<KeyId, i64>,
    owners: HashMap<PurchaseId, i64>,
}

impl Known {
    /// Returns whether `writes` conflict, and `writes` such that they do not.
    fn look(&self, writes: &Writes) -> (bool, Writes) {
        let (mut forced, mut conflicts) = (writes.clone(), false);
        for write in &mut forced.keys {
            let owner = PurchaseId::of(write.row.key.granted()).and_then(|purchase| self.owners.get(&purchase));
            if write.loaded.is_some() {
                let version = self.versions.get(&write.row.key.id()).copied().unwrap_or_default();
                conflicts |= version != write.row.version;
                write.row.version = version;
            } else if let Some(owner) = owner {
                conflicts |= write.heir_of != Some(*owner);
                write.heir_of = Some(*owner);
            }
        }
        (conflicts, forced)
    }
}

impl Racy {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    fn write(&self, writes: &Writes, is_forced: bool) -> Result<Vec<Persisted>, StoreError> {
        let mut known = self.known();
        let writes = if is_forced { known.look(writes).1 } else { writes.clone() };
        let persisted = self.inner.persist(&writes).now_or_never().unwrap()?;
        for (write, _) in writes.keys.iter().zip(&persisted).filter(|(_, it)| **it == Persisted::Written) {
            known.versions.insert(write.row.key.id(), write.row.version + 1);
            if let (Some(purchase), None) = (PurchaseId::of(write.row.key.granted()), &write.loaded) {
                known.owners.insert(purchase, write.row.number);
            }
        }
        Ok(persisted)
    }
}

#[async_trait]
impl Storage for Racy {
    async fn load(&self, needs: &Needs, attempt: Attempt) -> Result<Loaded, StoreError> {
        self.inner.load(needs, attempt).await
    }

    async fn numbers(&self, count: i64) -> Result<Numbers, StoreError> {
        self.inner.numbers(count).await
    }

    async fn persist(&self, writes: &Writes) -> Result<Vec<Persisted>, StoreError> {
        let is_forced = match self.race {
            Race::LetsTheLockGo => {
                let _turn = self.turn.lock().await;
                !self.known().look(writes).0
            }
            Race::TrustsTheLastUse => writes.keys.iter().any(|write| write.row.key.remaining() == Some(0)),
            Race::SellsTwice => writes.keys.iter().any(|write| write.loaded.is_none()),
        };
        let _turn = self.turn.lock().await;
        self.write(writes, is_forced)
    }
}

right! {
    Racy:
    Backend {
        fn register(keyring: &[Fingerprint]) -> ();
        fn search(query: &KeyQuery) -> Page<Key, KeyId>;
        fn claim_messages(now: DateTime<Utc>, lease_until: DateTime<Utc>, limit: usize) -> Vec<LeasedMessage>;
        fn renew_leases(leases: &[Lease], lease_until: DateTime<Utc>) -> ();
        fn failed_messages(limit: usize) -> Vec<FailedMessage>;
        fn retry_message(message: MessageNumber, edit: Edit) -> bool;
        fn retry_messages(route: Option<Route>, now: DateTime<Utc>) -> u64;
        fn history(id: KeyId, before: Option<UseId>, limit: usize) -> Page<Use, UseId>;
        fn prune_history(before: DateTime<Utc>) -> u64;
        fn ping() -> ();
        as it is:
        fn office(&self) -> Option<&dyn Office> {
            None
        }
        async fn close(&self) {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_store_that_loses_a_race_is_noticed_every_time() {
    const USES: &str = "of_many_racing_uses_exactly_the_limit_is_granted";
    const ORDERS: &str = "an_order_and_product_have_one_key_however_many_calls_race";
    let runs = support::rounds(20, 100);
    note_panics();
    for (race, name) in [
        (Race::LetsTheLockGo, USES),
        (Race::LetsTheLockGo, ORDERS),
        (Race::TrustsTheLastUse, USES),
        (Race::SellsTwice, ORDERS),
    ] {
        let case = LEDGER.iter().find(|case| case.name() == name).unwrap();
        let mut caught = 0;
        for _ in 0..runs {
            let (known, turn) = (Mutex::default(), tokio::sync::Mutex::default());
            let store = Racy { race, inner: MemoryStore::new(), known, turn };
            let store = Mutex::new(Some(store));
            let store = move || {
                let store = store.lock().unwrap().take().unwrap();
                async move { store }
            };
            caught += usize::from(noticed(tokio::spawn(case.run(store)).await, name));
        }
        assert_eq!(caught, runs, "{race:?}, {name}");
    }
}
