//! What is there when a store is opened again.

use std::sync::Arc;

use chrono::TimeDelta;

use super::fixtures::{Port, issue, key, message_id, now, order, product, revoke, use_at};
use super::{Case, Ledgers, cases};
use delivery_core::key::{Actor, Change, Fingerprint, Key, KeyId, LimitChange, NewKey};
use delivery_core::store::{Issue, KeyQuery, Outcome, Route, StoreError};
use delivery_core::terms::UseLimit;

cases![
    /// What a [`Ledger`](delivery_core::store::Ledger) promises that is durable. The store is closed before it is opened again; what a crash leaves behind is
    /// for tests of your own.
    REOPENED: Ledgers, each_reopened_case,
    what_was_acknowledged_is_there_when_the_store_is_opened_again,
    a_key_goes_on_where_it_was_when_the_store_is_opened_again,
    an_order_is_answered_with_its_key_when_the_store_is_opened_again,
    a_message_is_sent_once_however_often_the_store_is_opened,
    a_failed_message_waits_for_the_seller_when_the_store_is_opened_again,
    many_uses_are_counted_when_the_store_is_opened_again,
    a_foreign_keyring_is_refused_when_the_store_is_opened_again,
    a_closed_store_refuses_everything,
    closing_twice_does_no_harm,
];

async fn reopened(ledgers: &Ledgers, ledger: Port) -> Port {
    ledger.close().await;
    drop(ledger);
    ledgers.open().await
}

async fn find(ledger: &Port, id: KeyId) -> Key {
    ledger.find(id).await.expect("read").expect("a key")
}

async fn what_was_acknowledged_is_there_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let name = "0197-order".parse().expect("a name");
    let plain = issue(&ledger, key(1, 5)).await;
    let rich = issue(&ledger, key(2, 1).bought_with(order("Bestellung ä'\"; --")).called(name)).await;
    let used = ledger.change(plain.id(), use_at(now())).await.expect("changed").expect("known").expect("allowed");
    let revoked = ledger.change(rich.id(), revoke(now(), Some("refunded"))).await.expect("changed").expect("known");
    let revoked = revoked.expect("allowed");
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(find(&ledger, plain.id()).await, used);
    assert_eq!(find(&ledger, rich.id()).await, revoked);
    let all = KeyQuery { limit: 10, ..KeyQuery::default() };
    assert_eq!(ledger.search(&all).await.expect("searched").items, [revoked, used]);
    let history = ledger.history(plain.id(), None, 10).await.expect("read");
    assert_eq!(history.items.iter().map(|used| used.at).collect::<Vec<_>>(), [now()]);
}

async fn a_key_goes_on_where_it_was_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let mut ledger = ledgers.open().await;
    let id = issue(&ledger, key(1, 4)).await.id();
    for count in 1..=4 {
        let used = ledger.change(id, use_at(now())).await.expect("changed").expect("known");
        assert_eq!(used.expect("allowed").used(), count);
        ledger = reopened(&ledgers, ledger).await;
    }
    assert!(ledger.change(id, use_at(now())).await.expect("answered").expect("known").is_err(), "it is used up");
    let added = LimitChange::Set(UseLimit::from_count(5).expect("in range"));
    let terms = Change::SetTerms { at: now(), by: Actor::admin(), expires_at: None, limit: Some(added) };
    ledger.change(id, terms).await.expect("changed").expect("known").expect("allowed");
    let ledger = reopened(&ledgers, ledger).await;
    let used = ledger.change(id, use_at(now())).await.expect("changed").expect("known");
    assert_eq!(used.expect("allowed").used(), 5);
    assert_eq!(ledger.history(id, None, 10).await.expect("read").items.len(), 5);
}

async fn an_order_is_answered_with_its_key_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let sold = issue(&ledger, key(1, 1).bought_with(order("A"))).await;
    let ledger = reopened(&ledgers, ledger).await;
    let again = ledger.issue(key(2, 1).bought_with(order("A")), Some(message_id("2"))).await.expect("answered");
    assert_eq!(again, Issue::Existing(sold));
    assert!(ledger.claim_messages(now(), now() + TimeDelta::seconds(9), 9).await.expect("read").is_empty());
    let other = NewKey { product: product(2), ..key(3, 1) }.bought_with(order("A"));
    issue(&ledger, other).await;
}

async fn a_message_is_sent_once_however_often_the_store_is_opened(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    ledger.issue(key(1, 1), Some(message_id("1"))).await.expect("issued");
    let ledger = reopened(&ledgers, ledger).await;
    let later = now() + TimeDelta::hours(1);
    let until = later + TimeDelta::minutes(5);
    let claimed = ledger.claim_messages(later, until, 9).await.expect("read").remove(0);
    assert_eq!((claimed.attempt, claimed.message_id), (1, message_id("1")));
    ledger.complete_message(claimed.lease, Outcome::Sent { at: later }).await.expect("completed");
    let ledger = reopened(&ledgers, ledger).await;
    let much_later = later + TimeDelta::days(1);
    assert!(ledger.claim_messages(much_later, much_later, 9).await.expect("read").is_empty());
}

async fn a_failed_message_waits_for_the_seller_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    ledger.issue(key(1, 1), Some(message_id("1"))).await.expect("issued");
    let later = now() + TimeDelta::hours(1);
    let claimed = ledger.claim_messages(later, later + TimeDelta::minutes(5), 9).await.expect("read").remove(0);
    let fail = Outcome::Fail { at: later, reason: "no such user".to_owned(), route: Route::from_bytes([1; 16]) };
    ledger.complete_message(claimed.lease, fail).await.expect("completed");
    let ledger = reopened(&ledgers, ledger).await;
    let failed = ledger.failed_messages(9).await.expect("read").remove(0);
    assert_eq!((failed.reason.as_str(), failed.attempts, failed.failed_at), ("no such user", 1, later));
    assert!(ledger.retry_message(failed.message, later).await.expect("retried"));
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(ledger.claim_messages(later, later + TimeDelta::minutes(5), 9).await.expect("read").len(), 1);
}

async fn many_uses_are_counted_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    const USES: u64 = 300;
    let ledger = ledgers.open().await;
    let ids = [issue(&ledger, key(1, -1)).await.id(), issue(&ledger, key(2, -1)).await.id()];
    for _ in 0..USES {
        for id in ids {
            ledger.change(id, use_at(now())).await.expect("changed").expect("known").expect("allowed");
        }
    }
    let ledger = reopened(&ledgers, ledger).await;
    for id in ids {
        assert_eq!(find(&ledger, id).await.used(), USES);
        let mut before = None;
        let mut found = 0;
        loop {
            let page = ledger.history(id, before, 100).await.expect("read");
            found += page.items.len();
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(u64::try_from(found), Ok(USES));
    }
}

async fn a_foreign_keyring_is_refused_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let [own, foreign] = [Fingerprint::from_bytes([1; 16]), Fingerprint::from_bytes([2; 16])];
    let ledger = ledgers.open().await;
    ledger.register(&[own]).await.expect("accepted");
    let ledger = reopened(&ledgers, ledger).await;
    assert!(matches!(ledger.register(&[foreign]).await, Err(StoreError::ForeignSecret)));
    ledger.register(&[own]).await.expect("accepted");
}

async fn a_closed_store_refuses_everything(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let id = issue(&ledger, key(1, 1)).await.id();
    ledger.close().await;
    assert!(ledger.find(KeyId::from_bytes([9; 16])).await.is_err());
    assert!(ledger.issue(key(2, 1), None).await.is_err());
    assert!(ledger.change(id, use_at(now())).await.is_err());
    assert!(ledger.search(&KeyQuery::default()).await.is_err());
    assert!(ledger.claim_messages(now(), now(), 1).await.is_err());
    assert!(ledger.failed_messages(1).await.is_err());
    assert!(ledger.ping().await.is_err());
    drop(ledger);
    let ledger = ledgers.open().await;
    assert_eq!(find(&ledger, id).await.used(), 0, "what was refused did not happen");
}

async fn closing_twice_does_no_harm(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let id = issue(&ledger, key(1, 1)).await.id();
    ledger.close().await;
    ledger.close().await;
    drop(ledger);
    find(&ledgers.open().await, id).await;
}
