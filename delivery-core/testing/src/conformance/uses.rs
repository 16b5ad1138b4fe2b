//! Uses of keys: each is counted and remembered, also when many race.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::fixtures::{FEW, Port, RACERS, apply, find, history, issue, key, now, numbered, product, use_at};
use crate::racing::{race, rounds};
use delivery_core::key::{Change, Denied, Key, Refusal, Rule, Rules};
use delivery_core::ledger::Refused;

pub(super) async fn a_use_is_counted_and_answered_with_the_key_as_it_stands(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for count in 1..=3 {
        let changed = apply(&ledger, id, use_at(now())).await.expect("granted");
        assert_eq!(changed.used(), count);
        assert_eq!(ledger.find(id).await.expect("found"), Some(changed));
    }
}

pub(super) async fn of_many_racing_uses_exactly_the_limit_is_granted(ledger: Port) {
    for round in rounds() {
        // Every other key allows only one use, so that its first use is also its last.
        let limit = if round % 2 == 0 { 1 } else { 7 };
        let id = issue(&ledger, numbered(round, limit)).await.id();
        let uses = (0..FEW).map(|_| {
            let ledger = ledger.clone();
            async move { apply(&ledger, id, use_at(now())).await }
        });
        let mut counts: Vec<u64> = race(uses).await.iter().flatten().map(Key::used).collect();
        counts.sort_unstable();
        let all: Vec<u64> = (1..=limit.unsigned_abs()).collect();
        assert_eq!(counts, all, "each use has a count of its own");
        assert_eq!(Some(find(&ledger, id).await.used()), all.last().copied());
        assert_eq!(history(&ledger, id, 1000).await.len(), all.len());
    }
}

/// A rule that allows three uses, whatever the limit of the key.
#[derive(Debug)]
struct ThreeUses;

impl Rule for ThreeUses {
    fn judge(&self, key: &Key, _at: DateTime<Utc>) -> Result<(), Denied> {
        if key.used() <= 3 { Ok(()) } else { Err(Denied::new("ENOUGH", "Three uses are enough.")) }
    }
}

pub(super) async fn a_rule_judges_the_use_that_is_counted_however_many_race(ledger: Port) {
    let rules: Rules = [Arc::new(ThreeUses) as Arc<dyn Rule>].into_iter().collect();
    for round in rounds() {
        let id = issue(&ledger, numbered(round, -1)).await.id();
        let uses = (0..FEW).map(|_| {
            let (ledger, rules) = (ledger.clone(), rules.clone());
            let change = Change::Use { product: product(1), at: now(), rules };
            async move { apply(&ledger, id, change).await }
        });
        let mut counts = Vec::new();
        for answer in race(uses).await {
            match answer {
                Ok(key) => counts.push(key.used()),
                Err(Refused { refusal: Refusal::Denied(denied), .. }) => assert_eq!(denied.code(), "ENOUGH"),
                Err(refused) => panic!("only the rule refuses: {refused:?}"),
            }
        }
        counts.sort_unstable();
        assert_eq!(counts, [1, 2, 3]);
        assert_eq!(find(&ledger, id).await.used(), 3);
        assert_eq!(history(&ledger, id, 10).await.len(), 3, "a refused use is not recorded");
    }
}

pub(super) async fn uses_of_different_keys_do_not_mix(ledger: Port) {
    let mut racers = JoinSet::new();
    for index in 1..=10 {
        let id = issue(&ledger, key(index, -1)).await.id();
        for _ in 0..index {
            let ledger = ledger.clone();
            racers.spawn(async move { ledger.change(id, use_at(now()), Vec::new()).await });
        }
    }
    racers.join_all().await;
    for index in 1..=10 {
        assert_eq!(find(&ledger, key(index, -1).id).await.used(), u64::from(index));
    }
}

pub(super) async fn an_operation_whose_caller_goes_away_happens_entirely_or_not_at_all(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for index in 0..RACERS {
        let ledger = ledger.clone();
        let caller = tokio::spawn(async move { ledger.change(id, use_at(now()), Vec::new()).await });
        if index % 2 == 0 {
            tokio::task::yield_now().await;
        }
        caller.abort();
        // The caller may have finished or been aborted.
        let _ = caller.await;
    }
    apply(&ledger, id, use_at(now())).await.expect("granted");
    let used = find(&ledger, id).await.used();
    assert!((1..=RACERS as u64 + 1).contains(&used));
    let remembered = history(&ledger, id, 1000).await.len() as u64;
    assert_eq!(used, remembered, "a use is counted and remembered, or neither");
}
