//! Aliases of imported keys.

use delivery_core::key::{Actor, KeyId, NewKey, Refusal};
use delivery_core::ledger::{Imported, Issue, NewSale};
use delivery_core::store::{KeyQuery, Ledger, StoreError};

use super::fixtures::{
    FEW, Port, alias, apply, at, e_mail, find, imported, issue, key, now, numbered, order, rotate, successor, use_at,
};
use super::{Case, cases};
use crate::racing::{race, rounds};

cases![
    /// The promises of a store that keeps [`Aliases`](delivery_core::store::Aliases).
    ALIASES: dyn Ledger, each_alias_case,
    an_alias_finds_its_key,
    a_store_tells_whether_it_has_aliases,
    uses_that_were_made_elsewhere_count,
    a_repeated_sale_keeps_its_alias,
    an_alias_of_another_key_is_refused_and_changes_nothing,
    an_alias_is_of_one_key_however_many_calls_race,
    a_rotated_key_keeps_its_alias,
];

/// Returns the key that has one of these aliases.
async fn found(ledger: &Port, any_of: &[u8]) -> Option<KeyId> {
    let any_of: Vec<_> = any_of.iter().map(|index| alias(*index)).collect();
    ledger.office().expect("aliases").alias(&any_of).await.expect("read")
}

async fn import(ledger: &Port, sale: NewSale) -> Issue {
    ledger.issue(sale).await.expect("issued")
}

async fn an_alias_finds_its_key(ledger: Port) {
    let first = import(&ledger, imported(key(1, 5).bought_with(order("A")), 1)).await.into_key().id();
    let by_hand = import(&ledger, imported(key(2, 5), 2)).await.into_key().id();
    issue(&ledger, key(3, 5)).await;
    assert_eq!(found(&ledger, &[1]).await, Some(first));
    assert_eq!(found(&ledger, &[2]).await, Some(by_hand));
    assert_eq!(found(&ledger, &[9, 2, 1]).await, Some(by_hand), "the first that has a key");
    assert_eq!(found(&ledger, &[8, 9]).await, None);
    assert_eq!(found(&ledger, &[]).await, None);
}

async fn a_store_tells_whether_it_has_aliases(ledger: Port) {
    let has = async || ledger.office().expect("aliases").has_aliases().await.expect("read");
    assert!(!has().await);
    let without = NewSale { imported: Some(Imported { used: 1, alias: None }), ..NewSale::new(key(1, 5), Vec::new()) };
    import(&ledger, without).await;
    assert!(!has().await);
    import(&ledger, imported(key(2, 5), 1)).await;
    assert!(has().await);
}

async fn uses_that_were_made_elsewhere_count(ledger: Port) {
    for (index, granted) in [(1, key(1, 3)), (2, key(2, 3).bought_with(order("A")))] {
        let Issue::New(sold) = import(&ledger, imported(granted.clone(), index)).await else { panic!("a new key") };
        assert_eq!((sold.used(), sold.remaining()), (2, Some(1)));
        assert_eq!(find(&ledger, granted.id).await, sold);
        assert_eq!(apply(&ledger, granted.id, use_at(now())).await.expect("granted").used(), 3);
        let refused = apply(&ledger, granted.id, use_at(now())).await.expect_err("used up");
        assert!(matches!(refused.refusal, Refusal::Exhausted { .. }));
        assert_eq!(ledger.history(granted.id, None, 9).await.expect("read").items.len(), 1, "only what was used here");
    }
    // All uses of this key were made elsewhere.
    import(&ledger, imported(key(3, 2), 3)).await;
    let refused = apply(&ledger, key(3, 2).id, use_at(now())).await.expect_err("used up");
    assert_eq!(refused.key.remaining(), Some(0));
    assert_eq!(find(&ledger, key(3, 2).id).await, refused.key);
}

async fn a_repeated_sale_keeps_its_alias(ledger: Port) {
    let sale = imported(key(1, 5).bought_with(order("A")), 1);
    let Issue::New(sold) = import(&ledger, sale.clone()).await else { panic!("a new key") };
    assert_eq!(import(&ledger, sale).await, Issue::New(sold.clone()), "the same sale");
    let used = apply(&ledger, sold.id(), use_at(now())).await.expect("granted");
    for index in [1, 2] {
        let again = imported(key(1 + index, 5).bought_with(order("A")), index);
        assert_eq!(import(&ledger, again).await, Issue::Existing(used.clone()), "the same order");
    }
    assert_eq!(found(&ledger, &[1]).await, Some(sold.id()));
    assert_eq!(found(&ledger, &[2]).await, None, "an order that has a key gets no alias");
    // Nor does an order that was sold here.
    let sold = issue(&ledger, key(4, 5).bought_with(order("B"))).await;
    assert_eq!(import(&ledger, imported(key(5, 5).bought_with(order("B")), 3)).await, Issue::Existing(sold));
    assert_eq!(found(&ledger, &[3]).await, None);
    // The shop's own webhook tells of the same order as the import.
    let replay = NewSale::new(key(6, 5).bought_with(order("A")), e_mail("A"));
    assert_eq!(import(&ledger, replay).await, Issue::Existing(used));
    assert_eq!(found(&ledger, &[1]).await, Some(key(1, 5).id));
}

async fn an_alias_of_another_key_is_refused_and_changes_nothing(ledger: Port) {
    let first = import(&ledger, imported(key(1, 5).bought_with(order("A")), 1)).await.into_key();
    for other in [key(2, 5), key(3, 5).bought_with(order("B"))] {
        let sale = NewSale { messages: e_mail("other"), ..imported(other.clone(), 1) };
        let refused = ledger.issue(sale).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        assert_eq!(ledger.find(other.id).await.expect("answered"), None);
    }
    assert_eq!(found(&ledger, &[1]).await, Some(first.id()));
    assert_eq!(find(&ledger, first.id()).await, first);
    let all = ledger.search(&KeyQuery { limit: 9, ..KeyQuery::default() }).await.expect("searched").items;
    assert_eq!(all, [first]);
    assert!(ledger.claim_messages(at(60), at(61), 9).await.expect("claimed").is_empty());
    // The order that was refused can still be sold.
    issue(&ledger, key(4, 5).bought_with(order("B"))).await;
}

async fn an_alias_is_of_one_key_however_many_calls_race(ledger: Port) {
    for round in rounds().take(100) {
        let index = u8::try_from(round).expect("few");
        let sales = (0..FEW).map(|racer| {
            let (ledger, number) = (ledger.clone(), round * FEW + racer);
            // A half of the orders are the same.
            let name = format!("{round}-{}", racer.max(FEW / 2));
            let sale = imported(numbered(number, 5).bought_with(order(&name)), index);
            async move { ledger.issue(sale).await }
        });
        let mut keys = Vec::new();
        for issued in race(sales).await {
            match issued {
                Ok(issue) => keys.push(issue.into_key().id()),
                Err(StoreError::Refused { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        keys.dedup();
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_eq!(found(&ledger, &[index]).await, keys.first().copied());
        let all = ledger.search(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.expect("searched").items;
        assert_eq!(all.len(), round as usize + 1);
    }
}

/// The old text leads to the key that was withdrawn, not to its successor.
async fn a_rotated_key_keeps_its_alias(ledger: Port) {
    let sold = import(&ledger, imported(key(1, 5).bought_with(order("A")), 1)).await.into_key();
    let heir = rotate(&ledger, sold.id(), successor(key(2, 5).id, now(), Actor::admin())).await.into_key();
    assert_eq!(heir.used(), 2);
    assert_eq!(found(&ledger, &[1]).await, Some(sold.id()));
    let again = imported(NewKey { id: key(3, 5).id, ..key(1, 5) }.bought_with(order("A")), 1);
    assert_eq!(import(&ledger, again).await, Issue::Existing(heir));
}
