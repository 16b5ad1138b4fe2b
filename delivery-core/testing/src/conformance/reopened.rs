//! What a store still has when it is opened again.

use std::sync::Arc;

use chrono::TimeDelta;

use super::fixtures::{
    Port, alias, apply, at, day, e_mail, find, history, imported, issue, key, now, order, product, revoke, rotate,
    sell, successor, use_at,
};
use super::{Case, Ledgers, cases};
use delivery_core::key::{Actor, Change, Fingerprint, KeyId, LimitChange, NewKey};
use delivery_core::ledger::{Edit, Issue, NewSale, Outcome, Route};
use delivery_core::store::{KeyQuery, StoreError};
use delivery_core::terms::UseLimit;

cases![
    /// The promises of a durable [`Ledger`](delivery_core::store::Ledger). The cases close the store before they open
    /// it again. Crashes need tests of your own.
    REOPENED: Ledgers, each_reopened_case,
    what_was_acknowledged_is_there_when_the_store_is_opened_again,
    a_key_goes_on_where_it_was_when_the_store_is_opened_again,
    an_order_is_answered_with_its_key_when_the_store_is_opened_again,
    an_imported_key_has_its_alias_when_the_store_is_opened_again,
    a_message_is_sent_once_however_often_the_store_is_opened,
    a_failed_message_waits_for_the_seller_when_the_store_is_opened_again,
    a_claim_counts_when_the_store_is_opened_again,
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

async fn what_was_acknowledged_is_there_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let name = "0197-order".parse().expect("a name");
    let plain = issue(&ledger, key(1, 5)).await;
    let rich = issue(&ledger, key(2, 1).bought_with(order("Bestellung ä'\"; --")).called(name)).await;
    let used = apply(&ledger, plain.id(), use_at(now())).await.expect("allowed");
    let revoked = apply(&ledger, rich.id(), revoke(now(), Some("refunded"))).await.expect("allowed");
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(find(&ledger, plain.id()).await, used);
    assert_eq!(find(&ledger, rich.id()).await, revoked);
    let all = KeyQuery { limit: 10, ..KeyQuery::default() };
    assert_eq!(ledger.search(&all).await.expect("searched").items, [revoked, used]);
    assert_eq!(history(&ledger, plain.id(), 10).await, [now()]);
}

async fn a_key_goes_on_where_it_was_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let mut ledger = ledgers.open().await;
    let id = issue(&ledger, key(1, 4)).await.id();
    for count in 1..=4 {
        assert_eq!(apply(&ledger, id, use_at(now())).await.expect("allowed").used(), count);
        ledger = reopened(&ledgers, ledger).await;
    }
    assert!(apply(&ledger, id, use_at(now())).await.is_err(), "it is used up");
    let added = LimitChange::Set(UseLimit::from_count(5).expect("in range"));
    let terms = Change::SetTerms { at: now(), by: Actor::admin(), expires_at: None, limit: Some(added) };
    apply(&ledger, id, terms).await.expect("allowed");
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(apply(&ledger, id, use_at(now())).await.expect("allowed").used(), 5);
    let email: delivery_core::email::Email = "corrected@example.com".parse().expect("an address");
    let change = Change::SetEmail { at: now(), by: Actor::admin(), email: email.clone() };
    apply(&ledger, id, change).await.expect("never refused");
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!((find(&ledger, id).await.used(), find(&ledger, id).await.email()), (5, &email));
    let heir = rotate(&ledger, id, successor(key(2, 1).id, now(), Actor::admin())).await.into_key();
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(find(&ledger, heir.id()).await, heir);
    assert_eq!(find(&ledger, id).await.successor(), Some(heir.id()));
    assert_eq!(history(&ledger, id, 10).await.len(), 5);
}

async fn an_order_is_answered_with_its_key_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let sold = issue(&ledger, key(1, 1).bought_with(order("A"))).await;
    let ledger = reopened(&ledgers, ledger).await;
    let again = ledger.issue(NewSale::new(key(2, 1).bought_with(order("A")), e_mail("2"))).await.expect("answered");
    assert_eq!(again, Issue::Existing(sold));
    assert!(ledger.claim_messages(now(), now() + TimeDelta::seconds(9), 9).await.expect("read").is_empty());
    let other = NewKey { product: product(2), ..key(3, 1) }.bought_with(order("A"));
    issue(&ledger, other).await;
}

async fn an_imported_key_has_its_alias_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    let sale = imported(key(1, 5).bought_with(order("A")), 1);
    let id = ledger.issue(sale).await.expect("issued").into_key().id();
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(find(&ledger, id).await.used(), 2);
    let other = ledger.issue(imported(key(2, 5).bought_with(order("B")), 1)).await;
    assert!(matches!(other, Err(StoreError::Refused { .. })), "{other:?}");
    // Not every durable store has this part.
    if let Some(aliases) = ledger.office() {
        assert!(aliases.has_aliases().await.expect("read"));
        assert_eq!(aliases.alias(&[alias(1)]).await.expect("read"), Some(id));
    }
}

async fn a_message_is_sent_once_however_often_the_store_is_opened(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    sell(&ledger, key(1, 1), "1").await;
    let ledger = reopened(&ledgers, ledger).await;
    let claimed = ledger.claim_messages(at(60), at(65), 9).await.expect("read").remove(0);
    assert_eq!((claimed.attempt, claimed.message_id.as_str()), (1, "1@example.com"));
    ledger.complete_message(claimed.lease, Outcome::Sent { at: at(60) }).await.expect("completed");
    let ledger = reopened(&ledgers, ledger).await;
    assert!(ledger.claim_messages(day(2), day(2), 9).await.expect("read").is_empty());
}

async fn a_failed_message_waits_for_the_seller_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    sell(&ledger, key(1, 1), "1").await;
    let later = at(60);
    let claimed = ledger.claim_messages(later, at(65), 9).await.expect("read").remove(0);
    let fail = Outcome::Fail { at: later, reason: "no such user".to_owned(), route: Route::from_bytes([1; 16]) };
    ledger.complete_message(claimed.lease, fail).await.expect("completed");
    let ledger = reopened(&ledgers, ledger).await;
    let failed = ledger.failed_messages(9).await.expect("read").remove(0);
    assert_eq!((failed.reason.as_str(), failed.attempts, failed.failed_at), ("no such user", 1, later));
    assert!(ledger.retry_message(failed.message, Edit::new(Actor::admin(), later)).await.expect("retried"));
    let ledger = reopened(&ledgers, ledger).await;
    assert_eq!(ledger.claim_messages(later, at(65), 9).await.expect("read").len(), 1);
}

async fn many_uses_are_counted_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    const USES: u64 = 300;
    let ledger = ledgers.open().await;
    let ids = [issue(&ledger, key(1, -1)).await.id(), issue(&ledger, key(2, -1)).await.id()];
    for _ in 0..USES {
        for id in ids {
            apply(&ledger, id, use_at(now())).await.expect("allowed");
        }
    }
    let ledger = reopened(&ledgers, ledger).await;
    for id in ids {
        assert_eq!(find(&ledger, id).await.used(), USES);
        assert_eq!(u64::try_from(history(&ledger, id, 100).await.len()), Ok(USES));
    }
}

async fn a_claim_counts_when_the_store_is_opened_again(ledgers: Arc<Ledgers>) {
    let ledger = ledgers.open().await;
    sell(&ledger, key(1, 1), "1").await;
    let first = ledger.claim_messages(at(60), at(65), 9).await.expect("claimed").remove(0);
    let ledger = reopened(&ledgers, ledger).await;
    let second = ledger.claim_messages(at(70), at(75), 9).await.expect("claimed").remove(0);
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(second.lease.token > first.lease.token, "the old lease completes nothing");
    ledger.complete_message(first.lease, Outcome::Sent { at: at(70) }).await.expect("answered");
    ledger.complete_message(second.lease, Outcome::Release).await.expect("completed");
    assert_eq!(ledger.claim_messages(at(71), at(76), 9).await.expect("claimed").len(), 1);
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
    let later = at(60);
    let ledger = ledgers.open().await;
    let id = issue(&ledger, key(1, 1)).await.id();
    sell(&ledger, key(3, 1), "3").await;
    find(&ledger, id).await;
    let lease = ledger.claim_messages(later, later, 1).await.expect("claimed").remove(0).lease;
    ledger.close().await;
    let successor = successor(key(4, 1).id, now(), Actor::admin());
    let (number, sent) = (lease.message, Outcome::Sent { at: later });
    let answered = [
        ("register", ledger.register(&[Fingerprint::from_bytes([1; 16])]).await.is_ok()),
        ("find", ledger.find(id).await.is_ok()),
        ("find what is not there", ledger.find(KeyId::from_bytes([9; 16])).await.is_ok()),
        ("issue", ledger.issue(NewSale::new(key(2, 1), Vec::new())).await.is_ok()),
        ("change", ledger.change(id, use_at(now()), Vec::new()).await.is_ok()),
        ("rotate", ledger.rotate(id, successor).await.is_ok()),
        ("complete_message", ledger.complete_message(lease, sent).await.is_ok()),
        ("search", ledger.search(&KeyQuery::default()).await.is_ok()),
        ("claim_messages", ledger.claim_messages(later, later, 1).await.is_ok()),
        ("renew_leases", ledger.renew_leases(&[lease], later).await.is_ok()),
        ("failed_messages", ledger.failed_messages(1).await.is_ok()),
        ("retry_message", ledger.retry_message(number, Edit::new(Actor::admin(), later)).await.is_ok()),
        ("retry_messages", ledger.retry_messages(None, later).await.is_ok()),
        ("history", ledger.history(id, None, 1).await.is_ok()),
        ("prune_history", ledger.prune_history(later).await.is_ok()),
        ("ping", ledger.ping().await.is_ok()),
    ];
    let answered: Vec<_> = answered.into_iter().filter_map(|(call, is_ok)| is_ok.then_some(call)).collect();
    assert_eq!(answered, [""; 0], "these were answered");
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
