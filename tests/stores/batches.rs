//! Batches: however a history is cut into batches, SQLite and PostgreSQL have the answers and the state that a store in memory has
//! after one operation at a time. Operations that are submitted together share batches, in the order in which they were submitted.

use chrono::DateTime;
use delivery_core::key::{Change, Key, KeyId, NewKey};
use delivery_core::ledger::{Issue, NewSale, Refused};
use delivery_core::store::{KeyQuery, Ledger};
use delivery_testing::MemoryStore;
use delivery_testing::strategies;
use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::postgres::unique;

use super::fixtures::{self, e_mail, reference};
use super::places::{postgresql, sqlite};

const KEYS: u8 = 4;

/// One operation on one of a few keys.
#[derive(Debug, Clone)]
enum Step {
    Issue(u8, Option<&'static str>),
    Change(u8, Change),
}

#[derive(Debug, PartialEq)]
enum Answer {
    Issued(Issue),
    Changed(Option<Result<Key, Refused>>),
}

/// A history, and the sizes of its batches.
fn history() -> impl Strategy<Value = (Vec<Step>, Vec<usize>)> {
    let order = prop::sample::select(vec![None, Some("A"), Some("B")]);
    let step = prop_oneof![
        1 => (0..KEYS, order).prop_map(|(key, order)| Step::Issue(key, order)),
        4 => (0..KEYS, strategies::change()).prop_map(|(key, change)| Step::Change(key, change)),
    ];
    // A key is issued once: an id is never used for a second one.
    let unique = |steps: Vec<Step>| {
        let mut issued = std::collections::HashSet::new();
        let first = |step: &Step| !matches!(step, Step::Issue(key, _) if !issued.insert(*key));
        steps.into_iter().filter(first).collect::<Vec<_>>()
    };
    (prop::collection::vec(step, 1..40).prop_map(unique), prop::collection::vec(1..8_usize, 40))
}

fn id(key: u8) -> KeyId {
    // Even numbers: on PostgreSQL they share a queue.
    let mut id = [0x10; 16];
    id[0] = key;
    KeyId::from_bytes(id)
}

fn new_key(key: u8, order: Option<&str>) -> NewKey {
    let issued_at = DateTime::from_timestamp(1_900_000_000, 0).unwrap();
    NewKey { id: id(key), issued_at, order: order.map(reference), ..fixtures::key(0, 3) }
}

async fn apply(store: &impl Ledger, step: Step) -> Answer {
    match step {
        Step::Issue(key, order) => {
            let sale = NewSale::new(new_key(key, order), e_mail(&key.to_string()));
            Answer::Issued(store.issue(sale).await.unwrap())
        }
        Step::Change(key, change) => Answer::Changed(store.change(id(key), change, Vec::new()).await.unwrap()),
    }
}

/// Answers, every key as it is in the end, and how many uses and messages there are.
async fn run(store: &impl Ledger, steps: &[Step], sizes: &[usize]) -> (Vec<Answer>, Vec<Key>, Vec<usize>) {
    let (mut answers, mut steps) = (Vec::new(), steps.to_vec());
    for size in sizes {
        let rest = steps.split_off((*size).min(steps.len()));
        // Futures are polled in this order, and each submits its operation when it is first polled.
        answers.extend(join_all(steps.into_iter().map(|step| apply(store, step))).await);
        steps = rest;
    }
    let query = KeyQuery { limit: 100, ..KeyQuery::default() };
    let keys = store.search(&query).await.unwrap().items;
    let mut counts = Vec::new();
    for key in 0..KEYS {
        counts.push(store.history(id(key), None, 1000).await.unwrap().items.len());
    }
    let (now, later) =
        (DateTime::from_timestamp(1_900_000_001, 0).unwrap(), DateTime::from_timestamp(1_900_000_300, 0));
    counts.push(store.claim_messages(now, later.unwrap(), 100).await.unwrap().len());
    store.close().await;
    (answers, keys, counts)
}

/// On PostgreSQL an order that has a key is found out by the unique index, and answered after the rest of its batch, with what
/// that made of the key. Operations that are submitted together may happen in any order.
fn known_by_id(mut answers: (Vec<Answer>, Vec<Key>, Vec<usize>)) -> (Vec<Answer>, Vec<Key>, Vec<usize>) {
    for answer in &mut answers.0 {
        if let Answer::Issued(Issue::Existing(key)) = answer {
            *key = Key::from(key.granted().as_ref().clone());
        }
    }
    answers
}

fn check<S: Ledger, F: Future<Output = S>>(cases: u32, in_order: bool, open: impl Fn() -> F) {
    let seen = |answers| if in_order { answers } else { known_by_id(answers) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&history(), |(steps, sizes)| {
        runtime.block_on(async {
            let expected = seen(run(&MemoryStore::new(), &steps, &vec![1; steps.len()]).await);
            prop_assert_eq!(&seen(run(&open().await, &steps, &sizes).await), &expected);
            prop_assert_eq!(&seen(run(&open().await, &steps, &[steps.len()]).await), &expected, "all in one batch");
            Ok(())
        })
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[test]
fn batches_in_sqlite_come_to_what_one_operation_at_a_time_does() {
    let folders = tempfile::tempdir().unwrap();
    check(support::rounds(48, 96), true, async || sqlite(&tempfile::tempdir_in(&folders).unwrap().keep()).await);
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn batches_in_postgres_come_to_what_one_operation_at_a_time_does() {
    check(support::rounds(8, 12), false, async || postgresql(&unique(), false).await);
}
