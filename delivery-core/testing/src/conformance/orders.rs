//! Orders: one purchase, one key, one e-mail.

use chrono::TimeDelta;

use super::fixtures::{FEW, Port, apply, day, e_mail, find, issue, key, now, numbered, order, product, sell, use_at};
use crate::racing::{race, rounds};
use delivery_core::key::{KeyId, NewKey};
use delivery_core::ledger::{Issue, NewSale};
use delivery_core::order::OrderRef;
use delivery_core::store::{KeyQuery, StoreError};

pub(super) async fn an_order_and_product_have_one_key_however_many_calls_race(ledger: Port) {
    for round in rounds() {
        let sales = (0..FEW).map(|racer| {
            let (ledger, number) = (ledger.clone(), round * FEW + racer);
            let granted = numbered(number, 1).bought_with(order(&round.to_string()));
            async move { ledger.issue(NewSale::new(granted, e_mail(&number.to_string()))).await.expect("issued") }
        });
        let issued = race(sales).await;
        assert_eq!(issued.iter().filter(|issue| matches!(issue, Issue::New(_))).count(), 1);
        let mut keys: Vec<KeyId> = issued.into_iter().map(|issue| issue.into_key().id()).collect();
        keys.dedup();
        assert_eq!(keys.len(), 1, "every call answers with the same key");
        assert_eq!(messages(&ledger).await, 1);
        let found = ledger.search(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.expect("searched");
        assert_eq!(found.items.len(), round as usize + 1);
    }
}

pub(super) async fn a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message(ledger: Port) {
    let first = key(1, 5).bought_with(order("A"));
    sell(&ledger, first.clone(), "first").await;
    apply(&ledger, first.id, use_at(now())).await.expect("granted");
    let replay =
        NewKey { email: "other@example.com".parse().expect("an address"), ..key(2, 9) }.bought_with(order("A"));
    let answer = ledger.issue(NewSale::new(replay.clone(), e_mail("second"))).await.expect("answered");
    let stands = find(&ledger, first.id).await;
    assert_eq!(answer, Issue::Existing(stands));
    assert_eq!(ledger.find(replay.id).await.expect("answered"), None);
    assert_eq!(messages(&ledger).await, 1);
}

pub(super) async fn another_product_source_or_order_is_another_purchase(ledger: Port) {
    let elsewhere = OrderRef { source: "elsewhere".parse().expect("a source"), ..order("A") };
    for (index, product_id, order) in
        [(1, 1, order("A")), (2, 2, order("A")), (3, 1, elsewhere), (4, 1, order("a")), (5, 1, order("A "))]
    {
        issue(&ledger, NewKey { product: product(product_id), ..key(index, 1) }.bought_with(order)).await;
    }
}

pub(super) async fn a_key_issued_by_hand_has_no_order_and_is_always_new(ledger: Port) {
    for index in 1..=3 {
        assert_eq!(issue(&ledger, key(index, 1)).await.granted().order, None);
    }
    assert_eq!(messages(&ledger).await, 0, "no e-mail was asked for");
}

pub(super) async fn a_sale_that_is_repeated_is_one_key_and_new_each_time(ledger: Port) {
    for (name, granted) in [("hand", key(1, 5)), ("order", key(2, 5).bought_with(order("A")))] {
        let other = NewKey { product: product(2), ..granted.clone() };
        let sale = NewSale::new(granted, e_mail(name));
        let issued = ledger.issue(sale.clone()).await.expect("issued");
        assert!(matches!(issued, Issue::New(_)), "{name}");
        assert_eq!(ledger.issue(sale).await.expect("issued again"), issued, "{name}");
        let refused = ledger.issue(NewSale::new(other, Vec::new())).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "another key of the same id: {refused:?}");
    }
    assert_eq!(messages(&ledger).await, 2, "each has one e-mail");
}

pub(super) async fn an_order_whose_caller_goes_away_has_a_key_and_a_message_or_neither(ledger: Port) {
    for index in 0..50 {
        let granted = key(index, 1).bought_with(order(&index.to_string()));
        let port = ledger.clone();
        let message = e_mail(&format!("m{index}"));
        let caller = tokio::spawn(async move { port.issue(NewSale::new(granted, message)).await });
        if index % 2 == 0 {
            tokio::task::yield_now().await;
        }
        caller.abort();
        // The caller may have finished or been aborted.
        let _ = caller.await;
    }
    let mut bought = 0;
    for index in 0..50 {
        // An order that is still under way is handled before this one, or finds the key that this one has issued.
        let again = key(100 + index, 1).bought_with(order(&index.to_string()));
        let issued = ledger.issue(NewSale::new(again, Vec::new())).await.expect("answered");
        bought += usize::from(matches!(issued, Issue::Existing(_)));
    }
    assert_eq!(messages(&ledger).await, bought);
    let keys = ledger.search(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.expect("searched").items;
    assert_eq!(keys.len(), 50);
}

async fn messages(ledger: &Port) -> usize {
    let later = day(365);
    ledger.claim_messages(later, later + TimeDelta::minutes(1), 1000).await.expect("claimed").len()
}
