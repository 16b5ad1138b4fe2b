//! Keys and orders.

use chrono::TimeDelta;

use super::fixtures::{Port, apply, at, e_mail, find, issue, key, now, order, product, revoke, use_at};
use super::messages::{
    a_change_queues_its_messages_with_it_and_a_refused_one_queues_none,
    a_claimed_message_is_leased_until_its_time_is_over, a_failed_message_waits_for_the_seller,
    a_lease_is_renewed_as_long_as_it_is_held, a_lease_settles_once_and_only_with_the_newest_lease,
    a_message_is_claimed_by_one_of_many, a_postponed_message_is_due_at_its_time_and_its_attempt_not_counted,
    a_released_message_is_due_at_once_and_its_attempt_not_counted,
    a_retried_message_is_due_at_its_time_with_its_attempts_counted, a_sent_message_is_never_due_again,
    a_time_that_no_clock_should_have_written_delays_no_message, failed_messages_are_in_the_order_in_which_they_failed,
    messages_come_by_the_time_at_which_they_are_due, messages_come_oldest_first_and_no_more_than_asked_for,
    messages_that_failed_by_another_way_are_due_again,
};
use super::orders::{
    a_key_issued_by_hand_has_no_order_and_is_always_new,
    a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message,
    a_sale_that_is_repeated_is_one_key_and_new_each_time, an_order_and_product_have_one_key_however_many_calls_race,
    an_order_whose_caller_goes_away_has_a_key_and_a_message_or_neither,
    another_product_source_or_order_is_another_purchase,
};
use super::queries::{
    a_page_has_at_least_one_and_at_most_a_thousand, history_has_every_use_newest_first_in_pages,
    keys_are_searched_by_every_field_newest_first_in_pages,
    keys_are_searched_by_their_ids_in_whatever_order_they_were_issued, pruned_history_is_forgotten_and_counts_stay,
};
use super::rotation::{
    a_key_is_rotated_once_however_many_calls_race, a_revoked_key_and_an_unknown_one_are_not_rotated,
    a_rotated_key_gives_its_place_to_its_successor,
};
use super::uses::{
    a_rule_judges_the_use_that_is_counted_however_many_race, a_use_is_counted_and_answered_with_the_key_as_it_stands,
    an_operation_whose_caller_goes_away_happens_entirely_or_not_at_all,
    of_many_racing_uses_exactly_the_limit_is_granted, uses_of_different_keys_do_not_mix,
};
use super::{Case, cases};
use delivery_core::email::Email;
use delivery_core::key::{Actor, Change, Fingerprint, Key, KeyId, LimitChange, NewKey, Reason, Refusal, Status};
use delivery_core::ledger::Refused;
use delivery_core::store::{KeyQuery, Ledger, StoreError};
use delivery_core::terms::UseLimit;

cases![
    /// What every [`Ledger`] promises.
    LEDGER: dyn Ledger, each_ledger_case,
    an_issued_key_is_found_as_it_was_issued,
    an_unknown_key_is_not_found_and_not_changed,
    a_use_is_counted_and_answered_with_the_key_as_it_stands,
    a_refused_change_changes_nothing,
    a_revoked_key_stays_revoked,
    a_restored_key_is_what_it_was,
    new_terms_hold_from_the_next_use_on,
    a_corrected_address_is_found_and_the_old_one_is_not,
    a_rotated_key_gives_its_place_to_its_successor,
    a_key_is_rotated_once_however_many_calls_race,
    a_revoked_key_and_an_unknown_one_are_not_rotated,
    of_many_racing_uses_exactly_the_limit_is_granted,
    a_rule_judges_the_use_that_is_counted_however_many_race,
    uses_of_different_keys_do_not_mix,
    an_order_and_product_have_one_key_however_many_calls_race,
    a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message,
    another_product_source_or_order_is_another_purchase,
    a_key_issued_by_hand_has_no_order_and_is_always_new,
    a_sale_that_is_repeated_is_one_key_and_new_each_time,
    keys_are_searched_by_every_field_newest_first_in_pages,
    keys_are_searched_by_their_ids_in_whatever_order_they_were_issued,
    history_has_every_use_newest_first_in_pages,
    pruned_history_is_forgotten_and_counts_stay,
    a_keyring_with_a_known_secret_is_accepted_and_a_foreign_one_refused,
    an_operation_whose_caller_goes_away_happens_entirely_or_not_at_all,
    an_order_whose_caller_goes_away_has_a_key_and_a_message_or_neither,
    a_page_has_at_least_one_and_at_most_a_thousand,
    a_ledger_in_use_answers_a_ping,
    messages_come_oldest_first_and_no_more_than_asked_for,
    messages_come_by_the_time_at_which_they_are_due,
    a_change_queues_its_messages_with_it_and_a_refused_one_queues_none,
    a_message_is_claimed_by_one_of_many,
    a_claimed_message_is_leased_until_its_time_is_over,
    a_sent_message_is_never_due_again,
    a_retried_message_is_due_at_its_time_with_its_attempts_counted,
    a_postponed_message_is_due_at_its_time_and_its_attempt_not_counted,
    a_released_message_is_due_at_once_and_its_attempt_not_counted,
    a_lease_settles_once_and_only_with_the_newest_lease,
    a_failed_message_waits_for_the_seller,
    failed_messages_are_in_the_order_in_which_they_failed,
    messages_that_failed_by_another_way_are_due_again,
    a_lease_is_renewed_as_long_as_it_is_held,
    a_time_that_no_clock_should_have_written_delays_no_message,
];

async fn an_issued_key_is_found_as_it_was_issued(ledger: Port) {
    let granted = NewKey { limit: UseLimit::Unlimited, ..key(1, 3) }.bought_with(order("Bestellung ä'\"; --"));
    let issued = issue(&ledger, granted.clone()).await;
    assert_eq!(issued, Key::from(granted.clone()));
    assert_eq!(ledger.find(granted.id).await.expect("found"), Some(issued));
}

async fn an_unknown_key_is_not_found_and_not_changed(ledger: Port) {
    let (known, unknown) = (issue(&ledger, key(2, 1)).await, key(1, 1).id);
    assert_eq!(ledger.find(unknown).await.expect("answered"), None);
    assert_eq!(ledger.change(unknown, use_at(now()), Vec::new()).await.expect("answered"), None);
    assert!(ledger.history(unknown, None, 10).await.expect("answered").items.is_empty());
    assert_eq!(ledger.find(known.id()).await.expect("answered"), Some(known));
}

async fn a_refused_change_changes_nothing(ledger: Port) {
    let issued = issue(&ledger, key(1, 1)).await;
    let other = Change::use_of(product(2), now());
    let expired = use_at(issued.expires_at());
    for (change, refusal) in [
        (other, Refusal::WrongProduct { granted: product(1) }),
        (expired, Refusal::Expired { since: issued.expires_at() }),
    ] {
        assert_eq!(
            ledger.change(issued.id(), change, Vec::new()).await.expect("answered"),
            Some(Err(Refused { refusal, key: issued.clone() }))
        );
        assert_eq!(ledger.find(issued.id()).await.expect("found").as_ref(), Some(&issued));
    }
    assert!(ledger.history(issued.id(), None, 10).await.expect("answered").items.is_empty());
}

async fn a_revoked_key_stays_revoked(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for (at, reason) in [(now(), Some("refunded")), (at(60), None)] {
        let revoked = apply(&ledger, id, revoke(at, reason)).await.expect("revoked");
        assert_eq!(revoked.revoked_at(), Some(now()), "revoking again changes nothing");
        let revocation = revoked.state().revoked.clone().expect("revoked");
        assert_eq!(revocation.reason.as_ref().map(Reason::as_str), Some("refunded"));
        assert_eq!(revocation.by, Actor::admin());
    }
    let refused = apply(&ledger, id, use_at(now())).await.expect_err("refused");
    assert_eq!(refused.refusal, Refusal::Revoked { at: now() });
    assert_eq!(ledger.find(id).await.expect("found"), Some(refused.key));
}

async fn a_restored_key_is_what_it_was(ledger: Port) {
    let id = issue(&ledger, key(1, 3)).await.id();
    let before = apply(&ledger, id, use_at(now())).await.expect("granted");
    apply(&ledger, id, revoke(now(), None)).await.expect("allowed");
    for _ in 0..2 {
        let restore = Change::Restore { at: now(), by: Actor::admin() };
        let restored = apply(&ledger, id, restore).await.expect("restored");
        assert_eq!(restored, before, "restoring again changes nothing");
        assert_eq!(ledger.find(id).await.expect("found"), Some(restored));
    }
    let used = apply(&ledger, id, use_at(now())).await.expect("granted");
    assert_eq!(used.used(), 2);
    assert!(search_status(&ledger, Status::Revoked).await.is_empty());
}

async fn new_terms_hold_from_the_next_use_on(ledger: Port) {
    let limit = |uses| UseLimit::from_count(uses).expect("in range");
    let more = |uses| match limit(uses) {
        UseLimit::Uses(uses) => LimitChange::Add(uses),
        UseLimit::Unlimited => panic!("a number of uses"),
    };
    let issued = issue(&ledger, key(1, 1)).await;
    let change = async |expires_at, limit| {
        let change = Change::SetTerms { at: now(), by: Actor::admin(), expires_at, limit };
        let changed = apply(&ledger, issued.id(), change).await;
        let found = find(&ledger, issued.id()).await;
        assert_eq!(&found, changed.as_ref().unwrap_or_else(|refused| &refused.key));
        changed
    };
    let spend = async |at| apply(&ledger, issued.id(), use_at(at)).await;
    assert_eq!(spend(now()).await.expect("granted").used(), 1);
    assert_eq!(search_status(&ledger, Status::Exhausted).await, [issued.id()]);
    assert_eq!(change(None, Some(more(2))).await.expect("changed").limit(), limit(3));
    assert!(search_status(&ledger, Status::Exhausted).await.is_empty());
    assert_eq!(spend(now()).await.expect("granted").used(), 2);
    // A limit below the number of uses exhausts the key.
    assert_eq!(change(None, Some(LimitChange::Set(limit(1)))).await.expect("changed").used(), 2);
    assert!(matches!(spend(now()).await.expect_err("refused").refusal, Refusal::Exhausted { .. }));
    assert_eq!(search_status(&ledger, Status::Exhausted).await, [issued.id()]);
    let later = issued.expires_at() + TimeDelta::days(3);
    let changed = change(Some(later), Some(LimitChange::Set(UseLimit::Unlimited))).await.expect("changed");
    assert_eq!((changed.expires_at(), changed.granted().expires_at), (later, issued.expires_at()));
    assert_eq!(spend(issued.expires_at()).await.expect("granted").used(), 3);
    assert_eq!(change(None, Some(more(2))).await.expect_err("refused").refusal, Refusal::NoLimit);
    assert_eq!(change(Some(now()), None).await.expect("changed").expires_at(), now());
    assert_eq!(spend(now()).await.expect_err("refused").refusal, Refusal::Expired { since: now() });
    assert_eq!(search_status(&ledger, Status::Expired).await, [issued.id()]);
}

async fn a_corrected_address_is_found_and_the_old_one_is_not(ledger: Port) {
    let (issued, other) = (issue(&ledger, key(1, 2)).await, issue(&ledger, key(3, 2)).await);
    assert_eq!(issued.email(), other.email());
    let found = async |email: &str| -> Vec<KeyId> {
        let query = KeyQuery { email: email.parse().ok(), limit: 10, ..KeyQuery::default() };
        ledger.search(&query).await.expect("searched").items.iter().map(Key::id).collect()
    };
    let email: Email = "corrected@example.com".parse().expect("an address");
    for _ in 0..2 {
        let change = Change::SetEmail { at: now(), by: Actor::admin(), email: email.clone() };
        let changed = ledger.change(issued.id(), change, e_mail("1")).await.expect("changed").expect("known");
        let changed = changed.expect("never refused");
        assert_eq!((changed.email(), changed.used()), (&email, 0));
        assert_eq!(ledger.find(issued.id()).await.expect("found"), Some(changed));
    }
    assert_eq!(found("corrected@example.com").await, [issued.id()]);
    assert_eq!(found(issued.email().as_str()).await, [other.id()], "the old address");
    // One e-mail is sent, to the new address: the second change had no effect.
    let due = ledger.claim_messages(now(), at(5), 9).await.expect("claimed");
    assert_eq!(due.len(), 1);
    assert_eq!(due.first().map(|message| message.recipient.to_string()), Some(email.to_string()));
    let used = apply(&ledger, issued.id(), use_at(now())).await.expect("granted");
    assert_eq!(used.email(), &email, "a use leaves the address as it is");
}

async fn search_status(ledger: &Port, status: Status) -> Vec<KeyId> {
    let query = KeyQuery { status: Some((status, now())), limit: 10, ..KeyQuery::default() };
    ledger.search(&query).await.expect("searched").items.iter().map(Key::id).collect()
}

/// Returns the name of the case that tests this kind of change. A new kind does not compile until a case is added here.
#[cfg(test)]
fn case_of(change: &Change) -> &'static str {
    match change {
        Change::Use { .. } => "a_use_is_counted_and_answered_with_the_key_as_it_stands",
        Change::Revoke { .. } => "a_revoked_key_stays_revoked",
        Change::Restore { .. } => "a_restored_key_is_what_it_was",
        Change::SetTerms { .. } => "new_terms_hold_from_the_next_use_on",
        Change::SetEmail { .. } => "a_corrected_address_is_found_and_the_old_one_is_not",
    }
}

async fn a_keyring_with_a_known_secret_is_accepted_and_a_foreign_one_refused(ledger: Port) {
    let [old, new, foreign] = [1, 2, 3].map(|byte| Fingerprint::from_bytes([byte; 16]));
    let sell = async |index: u8, fingerprint: Fingerprint| {
        issue(&ledger, NewKey { secret: fingerprint.version(), ..key(index, -1) }).await;
    };
    ledger.register(&[old]).await.expect("a new ledger takes any ring");
    assert!(matches!(ledger.register(&[foreign]).await, Err(StoreError::ForeignSecret)));
    sell(1, old).await;
    ledger.register(&[new, old]).await.expect("rotation: the old secret is known");
    ledger.register(&[old]).await.expect("the new one has signed nothing yet");
    assert!(
        matches!(ledger.register(&[new]).await, Err(StoreError::RetiredSecret)),
        "the old one signed most recently"
    );
    sell(2, new).await;
    assert!(matches!(ledger.register(&[old]).await, Err(StoreError::RetiredSecret)), "now the new one did");
    ledger.register(&[old, new]).await.expect("another server, which has the new one and does not sign with it yet");
    ledger.register(&[new]).await.expect("the old secret is retired");
    assert!(matches!(ledger.register(&[foreign]).await, Err(StoreError::ForeignSecret)));
}

async fn a_ledger_in_use_answers_a_ping(ledger: Port) {
    issue(&ledger, key(1, 1)).await;
    ledger.ping().await.expect("answered");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategies;

    proptest! {
        #[test]
        fn every_kind_of_change_has_a_case(change in strategies::change()) {
            prop_assert!(LEDGER.iter().any(|case| case.name() == case_of(&change)));
        }
    }
}
