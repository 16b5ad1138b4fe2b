//! The rotation of keys whose text leaked.

use tokio::task::JoinSet;

use super::fixtures::{
    Port, RACERS, apply, at, day, e_mail, find, issue, key, now, order, product, revoke, rotate, successor, use_at,
};
use delivery_core::key::{Actor, Change, Key, KeyId, NewKey, Refusal};
use delivery_core::ledger::{Issue, NewSale, Successor};
use delivery_core::store::{KeyQuery, StoreError};

/// Returns the `index`th key as a successor, with its e-mail.
fn announced(index: u8) -> Successor {
    let messages = e_mail(&format!("successor-{index}"));
    Successor { messages, ..successor(key(index, 1).id, now(), Actor::admin()) }
}

pub(super) async fn a_rotated_key_gives_its_place_to_its_successor(ledger: Port) {
    let sold = issue(&ledger, key(1, 3).bought_with(order("A"))).await;
    for _ in 0..2 {
        apply(&ledger, sold.id(), use_at(now())).await.expect("granted");
    }
    let Issue::New(heir) = rotate(&ledger, sold.id(), announced(2)).await else { panic!("a successor of its own") };
    assert_eq!((heir.id(), heir.used(), heir.limit()), (key(2, 1).id, 2, sold.limit()));
    assert_eq!((heir.product(), heir.email(), heir.expires_at()), (sold.product(), sold.email(), sold.expires_at()));
    assert_eq!(heir.granted().order, sold.granted().order);
    assert_eq!(ledger.find(heir.id()).await.expect("found"), Some(heir.clone()));
    let old = find(&ledger, sold.id()).await;
    assert_eq!((old.successor(), old.revoked_at()), (Some(heir.id()), Some(now())));

    // The order belongs to the successor, and a search by the order finds both keys.
    let again = NewSale::new(key(9, 1).bought_with(order("A")), e_mail("again"));
    let again = ledger.issue(again).await.expect("answered");
    assert_eq!(again, Issue::Existing(heir.clone()));
    let query = KeyQuery { order: Some(order("A").id), limit: 9, ..KeyQuery::default() };
    let found = ledger.search(&query).await.expect("searched").items;
    assert_eq!(found.iter().map(Key::id).collect::<Vec<_>>(), [heir.id(), sold.id()]);

    // The successor continues with the count of the key that it replaced.
    let spend = async |id| apply(&ledger, id, use_at(now())).await;
    assert!(matches!(spend(sold.id()).await.expect_err("withdrawn").refusal, Refusal::Revoked { .. }));
    assert_eq!(spend(heir.id()).await.expect("granted").used(), 3);
    assert!(matches!(spend(heir.id()).await.expect_err("used up").refusal, Refusal::Exhausted { .. }));
    let restore = Change::Restore { at: now(), by: Actor::admin() };
    let refused = apply(&ledger, sold.id(), restore).await.expect_err("for good");
    assert_eq!(refused.refusal, Refusal::Replaced { successor: heir.id() });

    // A change of the replaced key leaves the order with the successor, which can be rotated too.
    let change = Change::SetTerms { at: now(), by: Actor::admin(), expires_at: Some(day(9)), limit: None };
    apply(&ledger, sold.id(), change).await.expect("allowed");
    let Issue::New(last) = rotate(&ledger, heir.id(), announced(3)).await else { panic!("a successor of its own") };
    let again = ledger.issue(NewSale::new(key(9, 1).bought_with(order("A")), Vec::new())).await.expect("answered");
    assert_eq!(again.into_key().id(), last.id());

    // There is one e-mail about each successor.
    let due = ledger.claim_messages(now(), at(5), 9).await.expect("claimed");
    assert_eq!(due.iter().map(|message| message.key.id()).collect::<Vec<_>>(), [heir.id(), last.id()]);
}

pub(super) async fn a_key_is_rotated_once_however_many_calls_race(ledger: Port) {
    let id = issue(&ledger, key(1, 5)).await.id();
    let mut racers = JoinSet::new();
    for index in 2..2 + u8::try_from(RACERS.min(100)).expect("few") {
        let ledger = ledger.clone();
        racers.spawn(async move {
            match ledger.rotate(id, announced(index)).await {
                Ok(rotated) => Some(rotated.expect("known").expect("not revoked")),
                Err(StoreError::Conflict { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        });
    }
    let rotated: Vec<Issue> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(rotated.iter().filter(|issue| matches!(issue, Issue::New(_))).count(), 1);
    let heirs: std::collections::HashSet<KeyId> = rotated.into_iter().map(|issue| issue.into_key().id()).collect();
    assert_eq!(heirs.len(), 1, "all are answered with the same successor");
    let heir = *heirs.iter().next().expect("one");
    // A successor can be rotated too. Rotating the first key then returns the last successor.
    let last = rotate(&ledger, heir, announced(201)).await.into_key();
    assert_eq!(rotate(&ledger, id, announced(202)).await, Issue::Existing(last));
    let all = KeyQuery { limit: 1000, ..KeyQuery::default() };
    assert_eq!(ledger.search(&all).await.expect("searched").items.len(), 3);
}

pub(super) async fn a_revoked_key_and_an_unknown_one_are_not_rotated(ledger: Port) {
    let id = issue(&ledger, key(1, 5)).await.id();
    assert_eq!(ledger.rotate(key(9, 1).id, announced(2)).await.expect("answered"), None);
    apply(&ledger, id, revoke(now(), None)).await.expect("allowed");
    let refused = ledger.rotate(id, announced(2)).await.expect("answered").expect("known").expect_err("revoked");
    assert_eq!(refused.refusal, Refusal::Revoked { at: now() });
    assert_eq!(ledger.find(key(2, 1).id).await.expect("found"), None);
    assert!(ledger.claim_messages(now(), at(5), 9).await.expect("claimed").is_empty());
    assert_eq!(issue(&ledger, NewKey { product: product(2), ..key(2, 1) }).await.used(), 0);
}
