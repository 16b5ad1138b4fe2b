//! What tests of stores begin with: what is sold, a service over a store, and calls on it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::Delivery;
use delivery_core::clock::SystemClock;
use delivery_core::delivery::{Builder, Stores};
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Actor, Change, Key, KeyId, NewKey, SecretVersion};
use delivery_core::ledger::{Edit, MessageId, Notice};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::order::{OrderRef, Source};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::Ledger;
use delivery_core::terms::{OwnTerms, Terms, UseLimit, Validity};
use delivery_testing::{Fixture, MemoryStore, Shop};
use http::Method;
use serde_json::{Value, json};

/// Outlives a restart here as stores elsewhere do.
pub struct InMemory(Arc<MemoryStore>);

pub fn in_memory() -> InMemory {
    InMemory(Arc::default())
}

impl Fixture for InMemory {
    type Store = MemoryStore;

    async fn open(&self) -> Arc<MemoryStore> {
        self.0.clone()
    }
}

/// What makes a database one of the first version.
pub const FIRST_VERSION: &str = "DROP TABLE delivery_alias; DROP TABLE delivery_payment; DROP TABLE delivery_platform_secret; DROP TABLE delivery_file; DROP TABLE delivery_dismissed; CREATE TABLE delivery_transfer (one INTEGER PRIMARY KEY, finished_at INTEGER); \
    DROP INDEX delivery_product_archived; DROP INDEX delivery_inbox_by_source;
    DELETE FROM _delivery_migrations WHERE version > 1";

/// When keys are issued.
pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap()
}

/// The first product of a store.
pub fn product() -> ProductId {
    ProductId::new(1).unwrap()
}

pub fn facts(name: &str) -> NewProduct {
    NewProduct::new(name).unwrap().content("# It").unwrap()
}

/// The seller changes something, at a time that does not matter.
pub fn by_admin() -> Edit {
    Edit::new(Actor::admin(), DateTime::UNIX_EPOCH)
}

pub fn reference(id: &str) -> OrderRef {
    OrderRef { source: Source::webhook(), id: id.parse().unwrap() }
}

/// A key that does not expire; -1 uses are no limit.
pub fn key(number: u128, uses: i64) -> NewKey {
    let terms = Terms { validity: Validity::Never, limit: UseLimit::from_count(uses).unwrap() };
    let identity = (KeyId::from_bytes(number.to_be_bytes()), SecretVersion::from_stored(1));
    NewKey::on_terms(identity, product(), "a@example.com".parse().unwrap(), terms, now())
}

/// The terms of a key with this many uses.
pub fn limited(uses: i64) -> OwnTerms {
    OwnTerms { limit: Some(UseLimit::from_count(uses).unwrap()), ..OwnTerms::default() }
}

/// The e-mail with a key, by the name of its message.
pub fn e_mail(name: &str) -> Vec<Notice> {
    vec![Notice::purchase(MessageId::new(format!("{name}@example.com")).unwrap())]
}

pub fn spend(second: i64) -> Change {
    Change::use_of(product(), now() + TimeDelta::seconds(second))
}

/// Uses a key that may be used.
pub async fn used(store: &impl Ledger, key: KeyId, second: i64) -> Key {
    store.change(key, spend(second), Vec::new()).await.unwrap().unwrap().unwrap()
}

/// A server in real time, with limits that no test reaches.
pub async fn shop(stores: impl Into<Stores>) -> Shop {
    shop_with(stores, |builder| builder).await
}

pub async fn shop_with(stores: impl Into<Stores>, build: impl FnOnce(Builder) -> Builder) -> Shop {
    let plenty = Quota::per_minute(u32::MAX).unwrap();
    let quotas = Quotas { product: plenty, webhook: plenty, validate: plenty, ..Quotas::default() };
    Shop::over(stores, |builder| build(builder.quotas(quotas).clock(Arc::new(SystemClock::default())))).await
}

pub async fn call(delivery: &Delivery, endpoint: Endpoint, call: Call) -> (u16, Value) {
    let reply = endpoint.call(delivery, call).await;
    (reply.status().as_u16(), serde_json::from_slice(&reply.body()).unwrap())
}

/// The platform tells of an order of the first product.
pub fn order(id: &str) -> Call {
    let secret = "the platform's secret";
    let body = json!({ "order_id": id, "product_id": 1, "customer_email": "a@example.com", "secret": secret });
    Call::new(Method::POST).json(body.to_string())
}

/// The text of the key that an order is answered with.
pub async fn sold(delivery: &Delivery, id: &str) -> String {
    let (status, answer) = call(delivery, Endpoint::Order, order(id)).await;
    assert_eq!(status, 200, "{answer}");
    answer["api_key"].as_str().unwrap().to_owned()
}

pub fn by_key(key: &str) -> Call {
    Call::new(Method::GET).query(format!("key={key}&product_id=1"))
}

/// Calls until the answer is not that the store is busy, five times at most. The store refuses an operation that waited
/// three seconds for a lock of another session, which can happen on a busy machine.
pub async fn patient<T, F: Future<Output = T>>(call: impl Fn() -> F, is_busy: impl Fn(&T) -> bool) -> T {
    for _ in 0..4 {
        let answer = call().await;
        if !is_busy(&answer) {
            return answer;
        }
    }
    call().await
}

/// Sends a request again while it is answered 503, as platforms and buyers do.
pub async fn patient_call(delivery: &Delivery, endpoint: Endpoint, new: impl Fn() -> Call) -> (u16, Value) {
    patient(|| call(delivery, endpoint, new()), |(status, _): &(u16, Value)| *status == 503).await
}

/// Asks again and again until it is so, in real time.
pub async fn until(what: &str, seconds: u64, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(seconds), waiting).await.expect(what);
}

/// A test that the parent module's promise of this name is kept over a store.
macro_rules! test_of {
    ($promise:ident, $store:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            super::$promise($store).await;
        }
    };
    (postgres $promise:ident, $store:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[cfg_attr(without = "postgres", ignore = "needs postgres")]
        async fn $promise() {
            super::$promise($store).await;
        }
    };
}
