//! A store that can be ill.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::HostRef;
use delivery_core::key::{Change, Fingerprint, Key, KeyId, NewKey};
use delivery_core::post::{NewPost, Post};
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{
    Backend, Catalog, CatalogEditor, FailedMessage, History, Issue, KeyQuery, Lease, LeasedMessage, Ledger,
    MemoryStore, MessageId, MessageNumber, Outcome, Page, PostQuery, Posts, Refused, Route, StoreError, Use, UseId,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Well,
    Away,
    Corrupt,
    Panicking,
    /// Its products and posts are managed elsewhere.
    Elsewhere,
    /// Now and then it is away, before or after it has done what it was asked; by this seed.
    Fickle(u64),
}

#[derive(Debug)]
pub struct FrailStore {
    store: MemoryStore,
    health: Mutex<Health>,
    chance: Mutex<StdRng>,
}

impl FrailStore {
    pub fn new() -> Self {
        let chance = Mutex::new(StdRng::seed_from_u64(0));
        Self { store: MemoryStore::new(), health: Mutex::new(Health::Well), chance }
    }

    pub fn falls(&self, health: Health) {
        *self.health.lock().unwrap() = health;
        if let Health::Fickle(seed) = health {
            *self.chance.lock().unwrap() = StdRng::seed_from_u64(seed);
        }
    }

    fn health(&self) -> Health {
        *self.health.lock().unwrap()
    }

    fn unlucky(&self) -> bool {
        self.chance.lock().unwrap().random_ratio(1, 8)
    }

    fn own_catalog(&self) -> Result<&MemoryStore, StoreError> {
        if self.health() == Health::Elsewhere {
            return Err(StoreError::Unsupported);
        }
        self.store()
    }

    /// The store, if it is well. Its panics are quiet, so that a log of tests shows only those that matter.
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        match self.health() {
            Health::Away => Err(StoreError::unavailable("switched off")),
            Health::Corrupt => Err(StoreError::corrupt("cursed")),
            Health::Panicking => std::panic::resume_unwind(Box::new("the host's store panicked")),
            Health::Fickle(_) if self.unlucky() => Err(StoreError::unavailable("not just now")),
            Health::Well | Health::Elsewhere | Health::Fickle(_) => Ok(&self.store),
        }
    }

    /// What was done, if its answer arrives.
    fn told<T>(&self, done: T) -> Result<T, StoreError> {
        match self.health() {
            Health::Fickle(_) if self.unlucky() => Err(StoreError::unavailable("gone before it answered")),
            _ => Ok(done),
        }
    }
}

#[async_trait]
impl Ledger for FrailStore {
    async fn issue(&self, key: NewKey, message: Option<MessageId>) -> Result<Issue, StoreError> {
        self.told(self.store()?.issue(key, message).await?)
    }
    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.store()?.find(id).await
    }
    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refused>>, StoreError> {
        self.told(self.store()?.change(id, change).await?)
    }
    async fn complete_message(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.told(self.store()?.complete_message(lease, outcome).await?)
    }
}

#[async_trait]
impl Backend for FrailStore {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        self.store()?.register(keyring).await
    }
    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        self.store()?.search(query).await
    }
    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        self.told(self.store()?.claim_messages(now, until, limit).await?)
    }
    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        self.store()?.renew_leases(leases, lease_until).await
    }
    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        self.store()?.failed_messages(limit).await
    }
    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.told(self.store()?.retry_messages(route, now).await?)
    }
    async fn retry_message(&self, message: MessageNumber, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.store()?.retry_message(message, now).await
    }
    fn uses(&self) -> Option<&dyn History> {
        Some(self)
    }
    async fn ping(&self) -> Result<(), StoreError> {
        self.store()?.ping().await
    }
    async fn close(&self) {}
}

#[async_trait]
impl History for FrailStore {
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        self.store()?.history(id, before, limit).await
    }
    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.store()?.prune_history(before).await
    }
}

#[async_trait]
impl Catalog for FrailStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        self.store()?.product(id).await
    }
    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        self.store()?.products().await
    }
}

#[async_trait]
impl CatalogEditor for FrailStore {
    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.own_catalog()?.add_product(product).await
    }
    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        self.store()?.product_called(host_ref).await
    }

    async fn update_product(&self, id: ProductId, product: NewProduct) -> Result<Option<Arc<Product>>, StoreError> {
        self.own_catalog()?.update_product(id, product).await
    }
    async fn archive_product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        self.own_catalog()?.archive_product(id).await
    }
}

#[async_trait]
impl Posts for FrailStore {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        self.store()?.posts(query).await
    }
    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.own_catalog()?.add_post(post).await
    }
}
