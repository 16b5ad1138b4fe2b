//! Keys and orders.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;

use super::letters::{
    a_claimed_letter_is_leased_until_its_time_is_over, a_lease_is_renewed_as_long_as_it_is_held,
    a_letter_is_claimed_by_one_of_many, a_parked_letter_waits_for_the_seller,
    a_postponed_letter_is_due_at_its_time_and_its_attempt_not_counted,
    a_receipt_settles_once_and_only_with_the_newest_lease,
    a_released_letter_is_due_at_once_and_its_attempt_not_counted,
    a_retried_letter_is_due_at_its_time_with_its_attempts_counted, a_sent_letter_is_never_due_again,
    a_time_that_no_clock_should_have_written_delays_no_letter, letters_come_oldest_first_and_no_more_than_asked_for,
    letters_that_failed_by_another_way_are_due_again,
};
use super::orders::{
    a_key_issued_by_hand_has_no_order_and_is_always_new,
    a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_letter,
    an_order_and_product_have_one_key_however_many_calls_race,
    an_order_whose_caller_goes_away_has_a_key_and_a_letter_or_neither,
    another_product_source_or_order_is_another_purchase,
};
use super::{Case, cases};
use crate::key::{Change, Fingerprint, Key, KeyId, NewKey, Refusal, RingVersion, Standing};
use crate::order::{OrderRef, Source};
use crate::product::ProductId;
use crate::store::{Issue, KeyQuery, Ledger, MessageId, StoreError};
use crate::terms::{Terms, UseLimit, Validity};

/// What every [`Ledger`] promises.
pub const LEDGER: &[Case<dyn Ledger>] = cases![
    an_issued_key_is_found_as_it_was_issued,
    an_unknown_key_is_not_found_and_not_changed,
    a_use_is_counted_and_answered_with_the_key_as_it_stands,
    a_refused_change_changes_nothing,
    a_revoked_key_stays_revoked,
    of_many_racing_uses_exactly_the_limit_is_granted,
    uses_of_different_keys_do_not_mix,
    an_order_and_product_have_one_key_however_many_calls_race,
    a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_letter,
    another_product_source_or_order_is_another_purchase,
    a_key_issued_by_hand_has_no_order_and_is_always_new,
    keys_are_searched_by_every_field_newest_first_in_pages,
    history_has_every_use_newest_first_in_pages,
    pruned_history_is_forgotten_and_counts_stay,
    a_ring_with_a_known_secret_is_accepted_and_a_foreign_one_refused,
    an_operation_whose_caller_goes_away_happens_entirely_or_not_at_all,
    an_order_whose_caller_goes_away_has_a_key_and_a_letter_or_neither,
    a_page_has_at_least_one_and_at_most_a_thousand,
    a_ledger_in_use_answers_a_ping,
    letters_come_oldest_first_and_no_more_than_asked_for,
    a_letter_is_claimed_by_one_of_many,
    a_claimed_letter_is_leased_until_its_time_is_over,
    a_sent_letter_is_never_due_again,
    a_retried_letter_is_due_at_its_time_with_its_attempts_counted,
    a_postponed_letter_is_due_at_its_time_and_its_attempt_not_counted,
    a_released_letter_is_due_at_once_and_its_attempt_not_counted,
    a_receipt_settles_once_and_only_with_the_newest_lease,
    a_parked_letter_waits_for_the_seller,
    letters_that_failed_by_another_way_are_due_again,
    a_lease_is_renewed_as_long_as_it_is_held,
    a_time_that_no_clock_should_have_written_delays_no_letter,
];

pub(super) type Port = Arc<dyn Ledger>;

pub(super) const RACERS: usize = 100;

pub(super) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap_or_default()
}

/// The `index`th key of a test: later ones have greater ids, as time-ordered ids do.
pub(super) fn key(index: u8, uses: i64) -> NewKey {
    let mut id = [0x11; 16];
    id[0] = index;
    let limit = UseLimit::from_count(uses).expect("in range");
    let terms = Terms { validity: Validity::from_days(1).expect("in range"), limit };
    let email = format!("buyer{}@example.com", index % 2).parse().expect("an address");
    let issued_at = now() + TimeDelta::seconds(i64::from(index));
    NewKey::on_terms((KeyId::from_bytes(id), RingVersion::from_stored(513)), product(1), email, terms, issued_at)
}

pub(super) fn product(id: i64) -> ProductId {
    ProductId::new(id).expect("1 or more")
}

pub(super) fn order(id: &str) -> OrderRef {
    OrderRef { source: Source::webhook(), id: id.parse().expect("a number") }
}

pub(super) fn message_id(name: &str) -> MessageId {
    MessageId::new(format!("{name}@example.com")).expect("an id")
}

pub(super) fn use_at(at: DateTime<Utc>) -> Change {
    Change::Use { product: product(1), at }
}

pub(super) async fn issue(ledger: &Port, key: NewKey) -> Key {
    match ledger.issue(key, None).await.expect("issued") {
        Issue::New(key) => key,
        Issue::Existing(_) => panic!("a new key was expected"),
    }
}

async fn an_issued_key_is_found_as_it_was_issued(ledger: Port) {
    let granted = NewKey { limit: UseLimit::Unlimited, ..key(1, 3) }.bought_with(order("Bestellung ä'\"; --"));
    let issued = issue(&ledger, granted.clone()).await;
    assert_eq!(issued, Key::from(granted.clone()));
    assert_eq!(ledger.find(granted.id).await.expect("found"), Some(issued));
}

async fn an_unknown_key_is_not_found_and_not_changed(ledger: Port) {
    let unknown = key(1, 1).id;
    assert_eq!(ledger.find(unknown).await.expect("answered"), None);
    assert_eq!(ledger.change(unknown, use_at(now())).await.expect("answered"), None);
    assert!(ledger.history(unknown, None, 10).await.expect("answered").items.is_empty());
}

async fn a_use_is_counted_and_answered_with_the_key_as_it_stands(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for count in 1..=3 {
        let changed = ledger.change(id, use_at(now())).await.expect("changed").expect("known").expect("granted");
        assert_eq!(changed.used(), count);
        assert_eq!(ledger.find(id).await.expect("found"), Some(changed));
    }
}

async fn a_refused_change_changes_nothing(ledger: Port) {
    let issued = issue(&ledger, key(1, 1)).await;
    let other = Change::Use { product: product(2), at: now() };
    let expired = use_at(issued.expires_at());
    for (change, refusal) in [
        (other, Refusal::WrongProduct { granted: product(1) }),
        (expired, Refusal::Expired { since: issued.expires_at() }),
    ] {
        assert_eq!(ledger.change(issued.id(), change).await.expect("answered"), Some(Err(refusal)));
        assert_eq!(ledger.find(issued.id()).await.expect("found").as_ref(), Some(&issued));
    }
    assert!(ledger.history(issued.id(), None, 10).await.expect("answered").items.is_empty());
}

async fn a_revoked_key_stays_revoked(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for at in [now(), now() + TimeDelta::hours(1)] {
        let revoked =
            ledger.change(id, Change::Revoke { at }).await.expect("changed").expect("known").expect("revoked");
        assert_eq!(revoked.revoked_at(), Some(now()), "revoking again changes nothing");
    }
    assert_eq!(ledger.change(id, use_at(now())).await.expect("answered"), Some(Err(Refusal::Revoked { at: now() })));
    assert_eq!(ledger.find(id).await.expect("found").and_then(|key| key.revoked_at()), Some(now()));
}

async fn of_many_racing_uses_exactly_the_limit_is_granted(ledger: Port) {
    let id = issue(&ledger, key(1, 37)).await.id();
    let mut racers = JoinSet::new();
    for _ in 0..RACERS {
        let ledger = ledger.clone();
        racers.spawn(async move { ledger.change(id, use_at(now())).await.expect("answered").expect("known") });
    }
    let results = racers.join_all().await;
    let mut counts: Vec<u64> = results.iter().flatten().map(Key::used).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=37).collect::<Vec<_>>(), "each use has a count of its own");
    assert_eq!(ledger.find(id).await.expect("found").map(|key| key.used()), Some(37));
    assert_eq!(ledger.history(id, None, 1000).await.expect("read").items.len(), 37);
}

async fn uses_of_different_keys_do_not_mix(ledger: Port) {
    let mut racers = JoinSet::new();
    for index in 1..=10 {
        let id = issue(&ledger, key(index, -1)).await.id();
        for _ in 0..index {
            let ledger = ledger.clone();
            racers.spawn(async move { ledger.change(id, use_at(now())).await });
        }
    }
    racers.join_all().await;
    for index in 1..=10 {
        let found = ledger.find(key(index, -1).id).await.expect("found").expect("known");
        assert_eq!(found.used(), u64::from(index));
    }
}

async fn keys_are_searched_by_every_field_newest_first_in_pages(ledger: Port) {
    for index in 1..=9 {
        let granted = NewKey { product: product(i64::from(index % 3) + 1), ..key(index, 1) };
        issue(&ledger, if index == 4 { granted.bought_with(order("four")) } else { granted }).await;
    }
    let spend = |index| Change::Use { product: product(i64::from(index % 3) + 1), at: now() };
    ledger.change(key(2, 1).id, spend(2)).await.expect("changed");
    ledger.change(key(3, 1).id, Change::Revoke { at: now() }).await.expect("changed");
    let standing = |standing| KeyQuery { standing: Some((standing, now())), ..KeyQuery::default() };
    let tomorrow = now() + TimeDelta::days(1) + TimeDelta::seconds(4);
    let tomorrow = |standing| KeyQuery { standing: Some((standing, tomorrow)), ..KeyQuery::default() };
    let email = |text: &str| KeyQuery { email: text.parse().ok(), ..KeyQuery::default() };
    for (query, expected) in [
        (KeyQuery::default(), vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (email("buyer0@example.com"), vec![8, 6, 4, 2]),
        (email("nobody@example.com"), vec![]),
        (KeyQuery { product: Some(product(1)), ..KeyQuery::default() }, vec![9, 6, 3]),
        (KeyQuery { product: Some(product(2)), ..email("buyer1@example.com") }, vec![7, 1]),
        (KeyQuery { order: Some(order("four")), ..KeyQuery::default() }, vec![4]),
        (KeyQuery { order: Some(order("five")), ..KeyQuery::default() }, vec![]),
        (standing(Standing::Exhausted), vec![2]),
        (standing(Standing::Revoked), vec![3]),
        (standing(Standing::Valid), vec![9, 8, 7, 6, 5, 4, 1]),
        (standing(Standing::Expired), vec![]),
        (tomorrow(Standing::Expired), vec![4, 2, 1]),
        (tomorrow(Standing::Valid), vec![9, 8, 7, 6, 5]),
    ] {
        for limit in [1, 2, 100] {
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let page = ledger.search(&KeyQuery { before, limit, ..query.clone() }).await.expect("searched");
                assert!(page.items.len() <= limit);
                found.extend(page.items.iter().map(|key| key.id().as_bytes()[0]));
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{query:?} in pages of {limit}");
        }
    }
}

async fn history_has_every_use_newest_first_in_pages(ledger: Port) {
    let (id, other) = (issue(&ledger, key(1, -1)).await.id(), issue(&ledger, key(2, -1)).await.id());
    let at = |minute| now() + TimeDelta::minutes(minute) + TimeDelta::milliseconds(7);
    for minute in 0..7 {
        ledger.change(id, use_at(at(minute))).await.expect("changed");
        ledger.change(other, use_at(at(minute))).await.expect("changed");
    }
    for limit in [1, 3, 7, 100] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = ledger.history(id, before, limit).await.expect("read");
            found.extend(page.items.iter().map(|used| used.at));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, (0..7).rev().map(at).collect::<Vec<_>>(), "in pages of {limit}");
    }
}

async fn pruned_history_is_forgotten_and_counts_stay(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    let at = |minute| now() + TimeDelta::minutes(minute);
    for minute in 0..5 {
        ledger.change(id, use_at(at(minute))).await.expect("changed");
    }
    assert_eq!(ledger.prune_history(at(3)).await.expect("pruned"), 3);
    assert_eq!(ledger.prune_history(at(3)).await.expect("pruned"), 0);
    let left = ledger.history(id, None, 10).await.expect("read");
    assert_eq!(left.items.iter().map(|used| used.at).collect::<Vec<_>>(), [at(4), at(3)]);
    assert_eq!(ledger.find(id).await.expect("found").map(|key| key.used()), Some(5));
    ledger.change(id, use_at(at(6))).await.expect("changed");
    assert_eq!(ledger.find(id).await.expect("found").map(|key| key.used()), Some(6));
}

async fn a_ring_with_a_known_secret_is_accepted_and_a_foreign_one_refused(ledger: Port) {
    let [old, new, foreign] = [1, 2, 3].map(|byte| Fingerprint::from_bytes([byte; 16]));
    let sell = async |index: u8, fingerprint: Fingerprint| {
        let key = NewKey { ring: fingerprint.version(), ..key(index, -1) };
        ledger.issue(key, None).await.expect("issued");
    };
    ledger.enroll(&[old]).await.expect("a new ledger takes any ring");
    assert!(matches!(ledger.enroll(&[foreign]).await, Err(StoreError::ForeignSecret)));
    sell(1, old).await;
    ledger.enroll(&[new, old]).await.expect("rotation: the old secret is known");
    ledger.enroll(&[old]).await.expect("the new one has signed nothing yet");
    assert!(matches!(ledger.enroll(&[new]).await, Err(StoreError::RetiredSecret)), "the old one signed most recently");
    sell(2, new).await;
    assert!(matches!(ledger.enroll(&[old]).await, Err(StoreError::RetiredSecret)), "now the new one did");
    ledger.enroll(&[old, new]).await.expect("another server, which has the new one and does not sign with it yet");
    ledger.enroll(&[new]).await.expect("the old secret is retired");
    assert!(matches!(ledger.enroll(&[foreign]).await, Err(StoreError::ForeignSecret)));
}

async fn an_operation_whose_caller_goes_away_happens_entirely_or_not_at_all(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for index in 0..RACERS {
        let ledger = ledger.clone();
        let caller = tokio::spawn(async move { ledger.change(id, use_at(now())).await });
        if index % 2 == 0 {
            tokio::task::yield_now().await;
        }
        caller.abort();
        // Joined or aborted, both are fine.
        let _ = caller.await;
    }
    ledger.change(id, use_at(now())).await.expect("changed");
    let used = ledger.find(id).await.expect("found").expect("known").used();
    let history = ledger.history(id, None, 1000).await.expect("read").items.len() as u64;
    assert!((1..=RACERS as u64 + 1).contains(&used));
    assert_eq!(used, history, "a use is counted and remembered, or neither");
}

async fn a_page_has_at_least_one_and_at_most_a_thousand(ledger: Port) {
    for index in 1..=3 {
        issue(&ledger, key(index, 1)).await;
    }
    for (limit, found) in [(0, 1), (1, 1), (1000, 3), (usize::MAX, 3)] {
        let page = ledger.search(&KeyQuery { limit, ..KeyQuery::default() }).await.expect("searched");
        assert_eq!(page.items.len(), found);
    }
}

async fn a_ledger_in_use_answers_a_ping(ledger: Port) {
    issue(&ledger, key(1, 1)).await;
    ledger.ping().await.expect("answered");
}
