//! Two open handles of one store, as two servers have them.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::fixtures::{RACERS, alias, apply, at, e_mail, find, imported, issue, key, now, order, revoke, sell, use_at};
use super::{Case, Ledgers, cases};
use delivery_core::ledger::{Issue, NewSale, Outcome};
use delivery_core::store::StoreError;

cases![
    /// The promises of a [`Ledger`](delivery_core::store::Ledger) that several servers use at once.
    SHARED: Ledgers, each_shared_case,
    what_one_handle_writes_the_other_reads,
    two_handles_count_as_one,
    an_order_told_to_both_handles_has_one_key_and_one_message,
    an_alias_told_to_both_handles_is_of_one_key,
    a_message_is_claimed_by_one_of_two_handles,
    a_lease_of_one_handle_is_over_when_the_other_has_the_message,
];

async fn what_one_handle_writes_the_other_reads(ledgers: Arc<Ledgers>) {
    let [first, second] = [ledgers.open().await, ledgers.open().await];
    let id = issue(&first, key(1, 4)).await.id();
    for count in 1..=3 {
        let (writes, reads) = if count % 2 == 1 { (&first, &second) } else { (&second, &first) };
        // The reading handle must not answer from what it read before.
        assert_eq!(find(reads, id).await.used(), count - 1);
        let used = apply(writes, id, use_at(now())).await.expect("allowed");
        assert_eq!((used.used(), reads.find(id).await.expect("read")), (count, Some(used)));
    }
    apply(&first, id, revoke(now(), None)).await.expect("allowed");
    assert!(apply(&second, id, use_at(now())).await.is_err(), "it is revoked");
}

async fn two_handles_count_as_one(ledgers: Arc<Ledgers>) {
    let handles = [ledgers.open().await, ledgers.open().await];
    let id = issue(&handles[0], key(1, 50)).await.id();
    let mut racers = JoinSet::new();
    for racer in 0..RACERS {
        let handle = handles[racer % 2].clone();
        racers.spawn(async move { apply(&handle, id, use_at(now())).await });
    }
    let mut counts: Vec<u64> = racers.join_all().await.into_iter().flatten().map(|key| key.used()).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=50).collect::<Vec<_>>(), "each count is handed out once");
    for handle in &handles {
        assert_eq!(find(handle, id).await.used(), 50);
    }
}

async fn an_order_told_to_both_handles_has_one_key_and_one_message(ledgers: Arc<Ledgers>) {
    let handles = [ledgers.open().await, ledgers.open().await];
    let mut racers = JoinSet::new();
    for racer in 0..40_u8 {
        let handle = handles[usize::from(racer % 2)].clone();
        let (sold, message) = (key(racer + 1, 1).bought_with(order("A")), e_mail(&racer.to_string()));
        racers.spawn(async move { handle.issue(NewSale::new(sold, message)).await.expect("answered") });
    }
    let issued = racers.join_all().await;
    assert_eq!(issued.iter().filter(|issue| matches!(issue, Issue::New(_))).count(), 1);
    let first = issued[0].clone().into_key().id();
    assert!(issued.into_iter().all(|issue| issue.into_key().id() == first));
    assert_eq!(handles[1].claim_messages(at(60), at(61), 99).await.expect("read").len(), 1);
}

async fn an_alias_told_to_both_handles_is_of_one_key(ledgers: Arc<Ledgers>) {
    let handles = [ledgers.open().await, ledgers.open().await];
    let mut racers = JoinSet::new();
    for racer in 0..40_u8 {
        let handle = handles[usize::from(racer % 2)].clone();
        let sale = imported(key(racer + 1, 5).bought_with(order(&racer.to_string())), 1);
        racers.spawn(async move {
            match handle.issue(sale).await {
                Ok(issue) => Some(issue.into_key().id()),
                Err(StoreError::Refused { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        });
    }
    let issued: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(issued.len(), 1, "{issued:?}");
    for handle in &handles {
        let aliases = handle.office().expect("aliases");
        assert_eq!(aliases.alias(&[alias(1)]).await.expect("read"), issued.first().copied());
    }
}

async fn a_message_is_claimed_by_one_of_two_handles(ledgers: Arc<Ledgers>) {
    let handles = [ledgers.open().await, ledgers.open().await];
    for index in 1..=20 {
        sell(&handles[0], key(index, 1), &index.to_string()).await;
    }
    let mut workers = JoinSet::new();
    for worker in 0..20 {
        let handle = handles[worker % 2].clone();
        workers.spawn(async move { handle.claim_messages(at(60), at(61), 3).await.expect("read") });
    }
    let mut claimed: Vec<_> = workers.join_all().await.into_iter().flatten().map(|it| it.lease.message).collect();
    claimed.sort_unstable();
    let all = claimed.len();
    claimed.dedup();
    assert_eq!((all, claimed.len()), (20, 20));
}

async fn a_lease_of_one_handle_is_over_when_the_other_has_the_message(ledgers: Arc<Ledgers>) {
    let [first, second] = [ledgers.open().await, ledgers.open().await];
    sell(&first, key(1, 1), "1").await;
    let old = first.claim_messages(at(60), at(61), 1).await.expect("read").remove(0);
    let new = second.claim_messages(at(62), at(64), 1).await.expect("read").remove(0);
    first.complete_message(old.lease, Outcome::Sent { at: at(62) }).await.expect("answered");
    let third = first.claim_messages(at(65), at(66), 1).await.expect("read").remove(0);
    assert_eq!((old.attempt, new.attempt, third.attempt), (1, 2, 3), "the old lease completed nothing");
}
