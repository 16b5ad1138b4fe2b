//! Two servers over one schema, beyond the conformance cases for two handles of one store.

use std::collections::HashSet;

use delivery_core::Error;
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::KeyId;
use delivery_core::store::StoreError;
use delivery_testing::Shop;
use futures_util::{StreamExt, stream};
use http::Method;
use sqlx::Executor;
use support::postgres::Postgres;
use tokio::task::JoinSet;

use super::{administrator, server, two_servers};
use crate::fixtures::{by_key, call, facts, order, patient, patient_call, product, sold};

/// Uses the keys on both servers in turn, all at once. Each use is answered with a count, or refused. A use that
/// waited too long for a lock is not counted, and is tried again.
async fn use_at_once(servers: &[Shop; 2], keys: &[KeyId]) -> Vec<Result<u64, Error>> {
    let mut users = JoinSet::new();
    for (index, key) in keys.iter().copied().enumerate() {
        let delivery = servers[index % 2].delivery.clone();
        users.spawn(async move {
            let is_busy = |used: &Result<_, _>| matches!(used, Err(Error::Store(StoreError::Conflict { .. })));
            patient(|| delivery.count_use(key, product()), is_busy).await.map(|key| key.used())
        });
    }
    users.join_all().await
}

/// Whoever reads a key before the other has counted must not write over that, however often they meet.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_key_used_on_both_in_step_loses_no_use_and_keeps_its_history_whole() {
    const ROUNDS: u64 = 400;
    let servers = two_servers().await;
    let key = sold(&servers[0].delivery, "A").await;
    let id = servers[0].delivery.verify(&key).unwrap();
    let mut counts = HashSet::new();
    for _ in 0..ROUNDS {
        counts.extend(use_at_once(&servers, &[id; 2]).await.into_iter().map(Result::unwrap));
    }
    assert_eq!(counts, (1..=2 * ROUNDS).collect());
    let (mut uses, mut before) = (0, None);
    loop {
        let page = servers[1].delivery.history(id, before, 100).await.unwrap();
        uses += page.items.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(uses as u64, 2 * ROUNDS);
}

/// A replayed order waits for the request that counts a use of its key. Each of the two may be in a batch with others
/// like it. A request that waits too long on a busy machine is sent again, but never because two servers wait for each
/// other.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn orders_come_again_while_their_keys_are_used_and_no_two_servers_deadlock() {
    // On a server of its own: other tests may cause deadlocks.
    let database = Postgres::start();
    // By default, PostgreSQL looks for a deadlock after a second. The store has given up waiting for the lock by then.
    administrator(&database).await.execute("ALTER ROLE postgres SET deadlock_timeout = '1ms'").await.unwrap();
    let servers = [server(&database.url(), "two").await, server(&database.url(), "two").await];
    for round in 0..20 {
        let mut callers = JoinSet::new();
        for (index, server) in (0..8).flat_map(|index| servers.iter().map(move |server| (index, server))) {
            let delivery = server.delivery.clone();
            callers.spawn(async move {
                let (status, sold) = patient_call(&delivery, Endpoint::Order, || order(&index.to_string())).await;
                let key = sold["api_key"].as_str().map(str::to_owned).unwrap_or_default();
                (status, patient_call(&delivery, Endpoint::Product, || by_key(&key)).await.0)
            });
        }
        let answers = callers.join_all().await;
        assert!(answers.iter().all(|statuses| *statuses == (200, 200)), "round {round}: {answers:?}");
    }
    assert!(!database.log().contains("deadlock detected"));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn what_one_server_adds_or_revokes_the_other_sees_at_once() {
    let [one, other] = two_servers().await;
    let listed = async || call(&other.delivery, Endpoint::Products, Call::new(Method::GET)).await.1;
    assert_eq!(listed().await["products"].as_array().unwrap().len(), 1);
    one.delivery.add_product(facts("Map")).await.unwrap();
    assert_eq!(listed().await["products"].as_array().unwrap().len(), 2);
    let key = sold(&one.delivery, "A").await;
    assert_eq!(call(&other.delivery, Endpoint::Product, by_key(&key)).await.0, 200);
    one.delivery.revoke(one.delivery.verify(&key).unwrap()).await.unwrap();
    assert_eq!(call(&other.delivery, Endpoint::Product, by_key(&key)).await.0, 401);
}

/// Batches as large as they get: more uses at once than one batch takes. A machine that is too busy for them within five seconds
/// refuses some, and counts none of those, unless the answer is that nobody knows.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn thousands_of_keys_used_at_once_are_each_counted_once() {
    const KEYS: usize = 3000;
    let servers = two_servers().await;
    let names: Vec<String> = (0..KEYS).map(|number| number.to_string()).collect();
    let sales = names.iter().enumerate().map(|(number, name)| sold(&servers[number % 2].delivery, name));
    let keys: Vec<String> = stream::iter(sales).buffer_unordered(16).collect().await;
    let ids: Vec<KeyId> = keys.iter().map(|key| servers[0].delivery.verify(key).unwrap()).collect();
    // How often each was used at least, and at most.
    let mut counts = vec![(0, 0); KEYS];
    for _ in 0..2 {
        for ((least, most), used) in counts.iter_mut().zip(use_at_once(&servers, &ids).await) {
            match used {
                Ok(used) => {
                    assert!((*least + 1..=*most + 1).contains(&used), "{used} after {least} to {most}");
                    (*least, *most) = (used, used);
                }
                Err(Error::Store(StoreError::Unknown { .. })) => *most += 1,
                Err(_) => {}
            }
        }
    }
    assert!(counts.iter().map(|(least, _)| least).sum::<u64>() > KEYS as u64, "most are served");
    for (key, (least, most)) in keys.iter().zip(&counts) {
        let used = servers[0].delivery.validate(key).await.unwrap().used();
        assert!((*least..=*most).contains(&used), "{used} instead of {least} to {most}");
    }
}
