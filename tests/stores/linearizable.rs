//! Concurrent calls on one key are linearizable: what each was answered is what it would have been answered if all of them had come
//! one after another, in some order in which none comes before one that was answered before it began. The rules are
//! [`Key::apply`]. Histories are recorded over every store and searched for such an order (Wing and Gong, 1993).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::TimeDelta;
use delivery_core::key::{Actor, Change, Key, KeyId, LimitChange};
use delivery_core::ledger::NewSale;
use delivery_core::product::ProductId;
use delivery_core::store::Ledger;
use delivery_core::terms::UseLimit;
use delivery_testing::Fixture;
use delivery_testing::MemoryStore;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::fixtures::{key, now, spend};
use super::places::{in_a_folder, in_a_schema};

/// Callers at once, and calls of each.
const CALLERS: usize = 5;
const CALLS: usize = 3;

/// What a caller asked for.
#[derive(Debug, Clone)]
enum Call {
    Find,
    Change(Change),
}

/// A call, when it began and ended, and the key it was answered with; `allowed` if it was no refusal.
#[derive(Debug, Clone)]
struct Record {
    call: Call,
    began: u64,
    ended: u64,
    key: Key,
    allowed: bool,
}

impl Record {
    /// The key after this call, if the call came next and was answered as it was.
    fn follows(&self, key: &Key) -> Option<Key> {
        let (after, allowed) = match &self.call {
            Call::Find => (key.clone(), true),
            Call::Change(change) => match key.apply(change) {
                Ok(changed) => (changed, true),
                Err(_) => (key.clone(), false),
            },
        };
        (after == self.key && allowed == self.allowed).then_some(after)
    }
}

/// Whether there is an order of `records` that begins with `key`.
fn is_linearizable(key: &Key, records: &[Record]) -> bool {
    let mut tried = HashSet::new();
    let mut open = vec![(key.clone(), 0_u32)];
    let all = (1_u32 << records.len()) - 1;
    while let Some((key, done)) = open.pop() {
        if done == all {
            return true;
        }
        if !tried.insert((done, format!("{:?}", key.state()))) {
            continue;
        }
        let left = || records.iter().enumerate().filter(|(index, _)| done & (1 << index) == 0);
        let first_end = left().map(|(_, record)| record.ended).min().unwrap_or(0);
        for (index, record) in left().filter(|(_, record)| record.began < first_end) {
            open.extend(record.follows(&key).map(|after| (after, done | 1 << index)));
        }
    }
    false
}

fn call(random: &mut StdRng) -> Call {
    let (at, by) = (now() + TimeDelta::minutes(1), Actor::admin());
    let limit = |uses| UseLimit::from_count(uses).unwrap();
    Call::Change(match random.random_range(0..12) {
        0..6 => spend(60),
        6 => Change::use_of(ProductId::new(2).unwrap(), at),
        7 => Change::Revoke { at, reason: None, by },
        8 => Change::Restore { at, by },
        9 => Change::SetTerms { at, by, expires_at: None, limit: Some(LimitChange::Set(limit(6))) },
        _ => return Call::Find,
    })
}

/// Calls of several callers at once, each one after another, and what came of them.
async fn record(store: &Arc<dyn Ledger>, key: KeyId, seed: u64) -> Vec<Record> {
    let clock = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (store, clock) = (store.clone(), clock.clone());
        let mut random = StdRng::seed_from_u64(seed * 100 + caller as u64);
        callers.spawn(async move {
            let mut records = Vec::new();
            for _ in 0..CALLS {
                let call = call(&mut random);
                let began = clock.fetch_add(1, Ordering::SeqCst);
                let (key, allowed) = match &call {
                    Call::Find => (store.find(key).await.unwrap().unwrap(), true),
                    Call::Change(change) => match store.change(key, change.clone(), Vec::new()).await.unwrap().unwrap()
                    {
                        Ok(key) => (key, true),
                        Err(refused) => (refused.key, false),
                    },
                };
                let ended = clock.fetch_add(1, Ordering::SeqCst);
                records.push(Record { call, began, ended, key, allowed });
            }
            records
        });
    }
    callers.join_all().await.concat()
}

async fn are_linearizable(store: Arc<dyn Ledger>, histories: u64) {
    for seed in 0..histories {
        let granted = key(u128::from(seed) + 1, 4);
        let key = store.issue(NewSale::new(granted, Vec::new())).await.unwrap().into_key();
        let records = record(&store, key.id(), seed).await;
        assert!(is_linearizable(&key, &records), "seed {seed}: {records:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory() {
    are_linearizable(Arc::new(MemoryStore::new()), 500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_sqlite() {
    let place = in_a_folder();
    are_linearizable(place.open().await, 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn over_postgres() {
    are_linearizable(in_a_schema(false).open().await, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn over_a_pool() {
    are_linearizable(in_a_schema(true).open().await, 50).await;
}

/// The checker itself: histories that no order explains are found.
#[test]
fn a_history_that_no_order_explains_is_found() {
    let (key, spend) = (Key::from(key(1, 4)), spend(60));
    let used = |times: usize| (0..times).fold(key.clone(), |key, _| key.apply(&spend).unwrap());
    let record = |call: &Call, (began, ended), times| {
        let key = used(times);
        Record { call: call.clone(), began, ended, key, allowed: true }
    };
    let (spend, find) = (Call::Change(spend.clone()), Call::Find);
    for (history, expected) in [
        (vec![record(&spend, (0, 1), 1), record(&spend, (2, 3), 2), record(&find, (4, 5), 2)], true),
        // At the same time, in either order.
        (vec![record(&spend, (0, 3), 2), record(&spend, (1, 2), 1)], true),
        (vec![record(&find, (0, 5), 1), record(&spend, (1, 2), 1), record(&spend, (3, 4), 2)], true),
        // A lost update: both were told the same count.
        (vec![record(&spend, (0, 3), 1), record(&spend, (1, 2), 1)], false),
        // A read that is older than an answer before it.
        (vec![record(&spend, (0, 1), 1), record(&find, (2, 3), 0)], false),
        // A count out of the order of the answers.
        (vec![record(&spend, (0, 1), 2), record(&spend, (2, 3), 1)], false),
        // A use that nobody made.
        (vec![record(&spend, (0, 1), 1), record(&find, (2, 3), 2)], false),
    ] {
        assert_eq!(is_linearizable(&key, &history), expected, "{history:#?}");
    }
}
