//! Searches and histories of keys.

use chrono::{DateTime, TimeDelta};

use super::fixtures::{Port, apply, at, day, find, history, issue, key, now, order, product, revoke, search, use_at};
use delivery_core::HostRef;
use delivery_core::key::{Change, NewKey, Status};
use delivery_core::order::OrderRef;
use delivery_core::store::{KeyQuery, Period};

/// Returns the numbers of the keys that a search finds.
async fn numbers(ledger: &Port, query: &KeyQuery) -> Vec<u8> {
    search(ledger, query).await.iter().map(|key| key.id().as_bytes()[0]).collect()
}

pub(super) async fn keys_are_searched_by_every_field_newest_first_in_pages(ledger: Port) {
    let name = |text: &str| text.parse::<HostRef>().expect("a name");
    for index in 1..=9 {
        let granted = NewKey { product: product(i64::from(index % 3) + 1), ..key(index, 1) };
        let granted = match index {
            4 => granted.bought_with(order("four")),
            5 => granted.bought_with(OrderRef { source: "stripe".parse().expect("a name"), ..order("four") }),
            _ => granted,
        };
        let granted = if index > 6 { granted.called(name("seven and up")) } else { granted };
        issue(&ledger, granted).await;
    }
    let spend = |index| Change::use_of(product(i64::from(index % 3) + 1), now());
    apply(&ledger, key(2, 1).id, spend(2)).await.expect("granted");
    apply(&ledger, key(3, 1).id, revoke(now(), None)).await.expect("allowed");
    let status = |status| KeyQuery { status: Some((status, now())), ..KeyQuery::default() };
    let tomorrow = day(1) + TimeDelta::seconds(4);
    let tomorrow = |status| KeyQuery { status: Some((status, tomorrow)), ..KeyQuery::default() };
    let email = |text: &str| KeyQuery { email: text.parse().ok(), ..KeyQuery::default() };
    let by_order = |id: &str, source: Option<&str>| KeyQuery {
        order: id.parse().ok(),
        source: source.map(|source| source.parse().expect("a name")),
        ..KeyQuery::default()
    };
    let begins = |text: &str| KeyQuery { email_prefix: Some(text.to_owned()), ..KeyQuery::default() };
    // The first six bytes of a key's id are the time at which it was made, in milliseconds. The first of them is the
    // number of the key here.
    let time = |index: i64| DateTime::from_timestamp_millis(index << 40).expect("a time");
    let made = |since: Option<i64>, until: Option<i64>| {
        let period = Period { since: since.map(time), until: until.map(time) };
        KeyQuery { period, ..KeyQuery::default() }
    };
    for (query, expected) in [
        (KeyQuery::default(), vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (email("buyer0@example.com"), vec![8, 6, 4, 2]),
        (email("nobody@example.com"), vec![]),
        (KeyQuery { product: Some(product(1)), ..KeyQuery::default() }, vec![9, 6, 3]),
        (KeyQuery { product: Some(product(2)), ..email("buyer1@example.com") }, vec![7, 1]),
        (by_order("four", None), vec![5, 4]),
        (by_order("four", Some("webhook")), vec![4]),
        (by_order("four", Some("stripe")), vec![5]),
        (by_order("four", Some("polar")), vec![]),
        (by_order("five", None), vec![]),
        (KeyQuery { source: "stripe".parse().ok(), ..KeyQuery::default() }, vec![5]),
        (KeyQuery { host_ref: Some(name("seven and up")), ..KeyQuery::default() }, vec![9, 8, 7]),
        (KeyQuery { host_ref: Some(name("seven and up")), ..email("buyer1@example.com") }, vec![9, 7]),
        (KeyQuery { host_ref: Some(name("seven")), ..KeyQuery::default() }, vec![]),
        (begins("BUYER0"), vec![8, 6, 4, 2]),
        (begins("buyer"), vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (begins("buyer0@example.com."), vec![]),
        (begins("uyer"), vec![]),
        (begins("b%"), vec![]),
        (KeyQuery { product: Some(product(3)), ..begins("buyer0") }, vec![8, 2]),
        (made(Some(3), None), vec![9, 8, 7, 6, 5, 4, 3]),
        (made(None, Some(3)), vec![2, 1]),
        (made(Some(3), Some(5)), vec![4, 3]),
        (made(Some(5), Some(3)), vec![]),
        (KeyQuery { product: Some(product(1)), ..made(Some(2), Some(9)) }, vec![6, 3]),
        (KeyQuery { status: Some((Status::Revoked, now())), ..made(Some(4), None) }, vec![]),
        (status(Status::Exhausted), vec![2]),
        (status(Status::Revoked), vec![3]),
        (status(Status::Valid), vec![9, 8, 7, 6, 5, 4, 1]),
        (status(Status::Expired), vec![]),
        (tomorrow(Status::Expired), vec![4, 2, 1]),
        (tomorrow(Status::Valid), vec![9, 8, 7, 6, 5]),
    ] {
        for limit in [1, 2, 100] {
            let found = numbers(&ledger, &KeyQuery { limit, ..query.clone() }).await;
            assert_eq!(found, expected, "{query:?} in pages of {limit}");
        }
    }
}

/// After a clock was set back, a new key has a smaller id than the keys before it.
pub(super) async fn keys_are_searched_by_their_ids_in_whatever_order_they_were_issued(ledger: Port) {
    for index in [3, 1, 4, 2] {
        issue(&ledger, key(index, 1)).await;
    }
    assert_eq!(numbers(&ledger, &KeyQuery { limit: 2, ..KeyQuery::default() }).await, [4, 3, 2, 1]);
}

pub(super) async fn history_has_every_use_newest_first_in_pages(ledger: Port) {
    let (id, other) = (issue(&ledger, key(1, -1)).await.id(), issue(&ledger, key(2, -1)).await.id());
    let at = |minute| at(minute) + TimeDelta::milliseconds(7);
    for minute in 0..7 {
        apply(&ledger, id, use_at(at(minute))).await.expect("granted");
        apply(&ledger, other, use_at(at(minute))).await.expect("granted");
    }
    for limit in [1, 3, 7, 100] {
        let found = history(&ledger, id, limit).await;
        assert_eq!(found, (0..7).rev().map(at).collect::<Vec<_>>(), "in pages of {limit}");
    }
}

pub(super) async fn pruned_history_is_forgotten_and_counts_stay(ledger: Port) {
    let id = issue(&ledger, key(1, -1)).await.id();
    for minute in 0..5 {
        apply(&ledger, id, use_at(at(minute))).await.expect("granted");
    }
    assert_eq!(ledger.prune_history(at(3)).await.expect("pruned"), 3);
    assert_eq!(ledger.prune_history(at(3)).await.expect("pruned"), 0);
    assert_eq!(history(&ledger, id, 10).await, [at(4), at(3)]);
    assert_eq!(find(&ledger, id).await.used(), 5);
    assert_eq!(apply(&ledger, id, use_at(at(6))).await.expect("granted").used(), 6);
    assert_eq!(find(&ledger, id).await.used(), 6);
    // A clock was set back: what was used before the newest deleted use is not listed.
    let id = issue(&ledger, key(2, -1)).await.id();
    for minute in [10, 5, 11] {
        apply(&ledger, id, use_at(at(minute))).await.expect("granted");
    }
    assert_eq!(ledger.prune_history(at(7)).await.expect("pruned"), 4);
    assert_eq!(history(&ledger, id, 10).await, [at(11)]);
}

pub(super) async fn a_page_has_at_least_one_and_at_most_a_thousand(ledger: Port) {
    for index in 1..=3 {
        issue(&ledger, key(index, 1)).await;
    }
    for (limit, found) in [(0, 1), (1, 1), (1000, 3), (usize::MAX, 3)] {
        let page = ledger.search(&KeyQuery { limit, ..KeyQuery::default() }).await.expect("searched");
        assert_eq!(page.items.len(), found);
    }
}
