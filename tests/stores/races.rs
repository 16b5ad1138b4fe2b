//! Callers that hang up, over every store: every count comes out exact. That racing calls which wait for their answer are counted
//! exactly is shown by the conformance suite and by `linearizable`.

use delivery_core::Delivery;
use delivery_core::delivery::{Issued, Stores};
use delivery_core::http::{Call, Endpoint, Grant};
use delivery_core::terms::{OwnTerms, UseLimit};
use delivery_testing::{Fixture, Shop};
use http::Method;
use tokio::task::JoinSet;

use super::fixtures::{by_key, product, shop};
use super::places::{in_a_folder, in_a_schema};

/// A key with this number of uses, or with the product's own terms.
async fn by_hand(delivery: &Delivery, uses: Option<i64>) -> Issued {
    let limit = uses.map(|uses| UseLimit::from_count(uses).unwrap());
    let terms = OwnTerms { limit, ..OwnTerms::default() };
    delivery.issue_by_hand(product(), "a@example.com".parse().unwrap(), terms, false).await.unwrap()
}

async fn callers_that_hang_up_leave_every_count_true(stores: impl Into<Stores>) {
    let Shop { delivery, .. } = shop(stores).await;
    let key = by_hand(&delivery, None).await;
    let with_key = || by_key(key.text.expose());
    let mut served = 0;
    for round in 0..300 {
        let (delivery, call) = (delivery.clone(), with_key());
        let caller = tokio::spawn(async move { Endpoint::Product.call(&delivery, call).await });
        for _ in 0..round % 4 {
            tokio::task::yield_now().await;
        }
        if round % 3 > 0 {
            caller.abort();
        }
        served += u64::from(caller.await.is_ok_and(|reply| reply.status() == 200));
    }
    let last = Endpoint::Product.call(&delivery, with_key()).await;
    assert_eq!(last.status(), 200);
    let known = delivery.validate(key.text.expose()).await.unwrap();
    let remembered = delivery.history(known.id(), None, 1000).await.unwrap().items.len() as u64;
    assert!((served + 1..=301).contains(&known.used()), "every answered use is counted");
    assert_eq!(known.used(), remembered, "and none is counted without a trace");
}

/// The promise of a key with k uses, while callers hang up at any moment: every count is handed out at most once, and
/// exactly k are spent when nothing is left.
async fn of_n_fetches_that_may_hang_up_exactly_the_limit_is_spent(stores: impl Into<Stores>) {
    const LIMIT: u64 = 40;
    let Shop { delivery, .. } = shop(stores).await;
    let key = by_hand(&delivery, Some(40)).await;
    let with_key = Call::new(Method::GET).query(format!("key={}", key.text.expose()));
    let grant = Grant::of(&delivery, &with_key).await.unwrap();
    let mut callers = JoinSet::new();
    let mut hung_up = Vec::new();
    for caller in 0..120 {
        let grant = grant.clone();
        let handle = callers.spawn(async move { grant.count_use(product()).await.map(|key| key.used()) });
        if caller % 3 == 0 {
            hung_up.push(handle);
        }
        if caller % 7 == 0 {
            tokio::task::yield_now().await;
            hung_up.drain(..).for_each(|caller| caller.abort());
        }
    }
    let mut counts = Vec::new();
    while let Some(answer) = callers.join_next().await {
        // Those that hung up were told nothing.
        counts.extend(answer.ok().and_then(Result::ok));
    }
    let told = counts.len();
    counts.sort_unstable();
    counts.dedup();
    assert_eq!(counts.len(), told, "no count is handed out twice");
    while grant.count_use(product()).await.is_ok() {}
    let known = delivery.history(key.key.id(), None, 1000).await.unwrap().items.len() as u64;
    let refused = delivery.validate(key.text.expose()).await.unwrap_err();
    assert_eq!((refused.code().as_str(), known), ("EXCEEDED_USES", LIMIT));
    assert!(counts.iter().all(|count| (1..=LIMIT).contains(count)));
}

/// Each race is a test over each store.
macro_rules! races {
    ($($race:ident),+ $(,)?) => {
        mod memory { $(test_of!($race, std::sync::Arc::new(delivery_testing::MemoryStore::new()));)+ }
        mod sqlite { $(test_of!($race, super::Fixture::open(&super::in_a_folder()).await);)+ }
        mod postgres { $(test_of!(postgres $race, super::Fixture::open(&super::in_a_schema(false)).await);)+ }
        mod postgres_pool { $(test_of!(postgres $race, super::Fixture::open(&super::in_a_schema(true)).await);)+ }
    };
}

races! {
    callers_that_hang_up_leave_every_count_true,
    of_n_fetches_that_may_hang_up_exactly_the_limit_is_spent,
}
