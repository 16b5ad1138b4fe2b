//! A store that can be ill.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::key::{Change, Fingerprint, Key, KeyId, NewKey, Refusal};
use delivery_core::post::{NewPost, Post};
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{
    Catalog, Issue, KeyQuery, Ledger, Letter, LetterId, MemoryStore, MessageId, Outcome, Page, ParkedLetter, PostQuery,
    Receipt, StoreError, Use, UseId,
};

/// How the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Health {
    Well,
    Away,
    Corrupt,
    Panicking,
    /// Its products and posts are managed elsewhere.
    Elsewhere,
}

#[derive(Debug)]
pub struct FrailStore {
    store: MemoryStore,
    health: AtomicU8,
}

impl FrailStore {
    pub fn new() -> Self {
        Self { store: MemoryStore::new(), health: AtomicU8::new(Health::Well as u8) }
    }

    pub fn falls(&self, health: Health) {
        self.health.store(health as u8, Ordering::Relaxed);
    }

    fn own_catalog(&self) -> Result<&MemoryStore, StoreError> {
        if self.health.load(Ordering::Relaxed) == Health::Elsewhere as u8 {
            return Err(StoreError::Unsupported);
        }
        self.store()
    }

    /// The store, if it is well. Its panics are quiet, so that a log of tests shows only those that matter.
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        match self.health.load(Ordering::Relaxed) {
            ill if ill == Health::Away as u8 => Err(StoreError::unavailable("switched off")),
            ill if ill == Health::Corrupt as u8 => Err(StoreError::corrupt("cursed")),
            ill if ill == Health::Panicking as u8 => std::panic::resume_unwind(Box::new("the host's store panicked")),
            _ => Ok(&self.store),
        }
    }
}

#[async_trait]
impl Ledger for FrailStore {
    async fn enroll(&self, ring: &[Fingerprint]) -> Result<(), StoreError> {
        self.store()?.enroll(ring).await
    }
    async fn issue(&self, key: NewKey, letter: Option<MessageId>) -> Result<Issue, StoreError> {
        self.store()?.issue(key, letter).await
    }
    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.store()?.find(id).await
    }
    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refusal>>, StoreError> {
        self.store()?.change(id, change).await
    }
    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        self.store()?.search(query).await
    }
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        self.store()?.history(id, before, limit).await
    }
    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.store()?.prune_history(before).await
    }
    async fn claim_letters(
        &self,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        self.store()?.claim_letters(now, until, limit).await
    }
    async fn settle_letter(&self, receipt: Receipt, outcome: Outcome) -> Result<(), StoreError> {
        self.store()?.settle_letter(receipt, outcome).await
    }
    async fn parked_letters(&self, limit: usize) -> Result<Vec<ParkedLetter>, StoreError> {
        self.store()?.parked_letters(limit).await
    }
    async fn unpark_letter(&self, letter: LetterId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.store()?.unpark_letter(letter, now).await
    }
    async fn ping(&self) -> Result<(), StoreError> {
        self.store()?.ping().await
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
    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.own_catalog()?.add_product(product).await
    }
    async fn posts(&self, query: &PostQuery) -> Result<Vec<Post>, StoreError> {
        self.store()?.posts(query).await
    }
    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.own_catalog()?.add_post(post).await
    }
}
