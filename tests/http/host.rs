//! The application around the API: routes of its own, a guarded one, and a store that can be switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use axum::Router;
use axum::routing::get;
use chrono::{DateTime, Utc};
use delivery_axum::{Grant, Refused};
use delivery_core::Delivery;
use delivery_core::key::{Change, Fingerprint, Key, KeyId, NewKey, Refusal};
use delivery_core::post::{NewPost, Post};
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{
    Catalog, Issue, KeyQuery, Ledger, Letter, LetterId, MemoryStore, MessageId, Outcome, Page, ParkedLetter, PostQuery,
    Receipt, StoreError, Use, UseId,
};

use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("host::own_route_beside_the_api", "GET /hello"),
        row("host::unknown_path_below_api", "GET /api/unknown"),
        row("host::trailing_slash_is_another_path", "GET /api/validate/?key={VALID}"),
        row("host::doubled_slash_is_another_path", "GET //api/validate?key={VALID}"),
        row("host::nested_api_answers_alike", "GET /nested/api/validate?key={VALID}"),
        row("host::guard_lets_a_valid_key_in_and_counts_nothing", "GET /guarded").header("x-api-key", "{VALID}"),
        row("host::guard_counts_when_the_route_says_so", "GET /counted?key={LIMITED}"),
        row("host::guard_counts_no_more_than_the_limit", "GET /counted?key={LIMITED}").times(3),
        row("host::guard_refuses_a_missing_key", "GET /guarded"),
        row("host::guard_refuses_a_forged_key", "GET /guarded?key={FORGED}"),
        row("host::guard_refuses_an_expired_key", "GET /guarded?key={EXPIRED}"),
        row("host::guard_limits_failures", "GET /guarded?key={FORGED}").times(61),
    ]
}

#[derive(Clone)]
struct State(Delivery);

impl axum::extract::FromRef<State> for Delivery {
    fn from_ref(state: &State) -> Self {
        state.0.clone()
    }
}

pub fn app(delivery: Delivery) -> Router {
    Router::<State>::new()
        .route("/hello", get(|| async { "hello" }))
        .route("/guarded", get(async |grant: Grant| format!("used {} times", grant.key().used())))
        .route("/counted", get(counted))
        .nest("/nested", delivery_axum::router(delivery.clone()))
        .merge(delivery_axum::router(delivery.clone()))
        .fallback(delivery_axum::not_found)
        .with_state(State(delivery))
}

async fn counted(grant: Grant) -> Result<String, Refused> {
    let key = grant.count_use(grant.key().product()).await?;
    Ok(format!("used {} times", key.used()))
}

/// A store that can be away.
#[derive(Debug)]
pub struct BrokenStore {
    store: MemoryStore,
    broken: Arc<AtomicBool>,
}

impl BrokenStore {
    pub fn new(store: MemoryStore) -> Self {
        Self { store, broken: Arc::default() }
    }

    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    fn store(&self) -> Result<&MemoryStore, StoreError> {
        let away = || StoreError::unavailable("switched off");
        if self.broken.load(Ordering::Relaxed) { Err(away()) } else { Ok(&self.store) }
    }
}

#[async_trait]
impl Ledger for BrokenStore {
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
impl Catalog for BrokenStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        if id.get() == 666 {
            return Err(StoreError::corrupt("a cursed product"));
        }
        self.store()?.product(id).await
    }
    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        self.store()?.products().await
    }
    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.store()?.add_product(product).await
    }
    async fn posts(&self, query: &PostQuery) -> Result<Vec<Post>, StoreError> {
        self.store()?.posts(query).await
    }
    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.store()?.add_post(post).await
    }
}
