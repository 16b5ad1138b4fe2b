//! What the service does inside a transaction of the host's: their order and our key are one commit, or none of them is.

mod ground;
mod postgres;
mod sqlite;

use delivery_core::Error;
use delivery_core::delivery::Uncommitted;
use delivery_core::key::{Actor, Alias, Change, Denied, KeyId, LimitChange};
use delivery_core::ledger::{Imported, NewSale};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{Ledger, StoreError};

use self::ground::{ChangedItsMind, Host, Transact, Work, execute, host, order};
use super::fixtures::{self, product};

async fn a_rollback_leaves_nothing(host: Host<impl Transact>) {
    host.transact("A-1", false).await.rolled_back();
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (0, 0, 0));
    assert_eq!(host.observed().await, [""; 0]);
    // Nor a trace in a cache: the order is new to the webhook.
    let key = host.webhook("A-1").await;
    assert!(host.delivery.validate(&key).await.is_ok());
    assert_eq!((host.keys().await, host.sent().await), (1, 1));
}

async fn a_commit_is_an_order_a_key_and_one_message(host: Host<impl Transact>) {
    let issued = host.transact("A-1", true).await;
    assert_eq!(host.observed().await, [""; 0], "before `committed`");
    let issued = issued.committed();
    assert_eq!(host.observed().await, ["issued"]);
    assert!(issued.new);
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
    let text = issued.text.expose();
    assert!(host.mailer.accepted()[0].text.contains(text));
    // It is used like any other key, at once.
    let id = host.delivery.verify(text).unwrap();
    let used = host.delivery.count_use(id, product()).await.unwrap();
    assert_eq!((used.used(), used.email().as_str()), (1, "b@example.com"));
}

async fn a_replay_by_webhook_answers_with_the_key_and_sends_nothing(host: Host<impl Transact>) {
    let issued = host.bought("A-1").await;
    assert_eq!(host.webhook("A-1").await, issued.text.expose());
    assert_eq!((host.keys().await, host.sent().await), (1, 1));
}

async fn an_order_that_the_webhook_told_of_is_answered_with_its_key(host: Host<impl Transact>) {
    let key = host.webhook("A-1").await;
    let issued = host.bought("A-1").await;
    assert_eq!((issued.text.expose(), issued.new), (key.as_str(), false));
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
}

async fn an_order_told_by_both_at_once_has_one_key(host: Host<impl Transact>) {
    for id in ["R-0", "R-1", "R-2", "R-3", "R-4", "R-5", "R-6", "R-7", "R-8", "R-9"] {
        let (inside, outside) = tokio::join!(host.bought(id), host.webhook(id));
        assert_eq!(inside.text.expose(), outside);
    }
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (10, 10, 10));
}

/// A sale of another key with the same alias is refused, and leaves the transaction open.
async fn an_imported_sale_has_its_alias_after_the_commit_alone(host: Host<impl Transact + Ledger>) {
    let alias = Alias::from_bytes([7; 32]);
    let imported = Some(Imported { used: 1, alias: Some(alias) });
    for commit in [false, true] {
        let sale = NewSale { imported, ..host.delivery.prepare(order("A-1")).await.unwrap() };
        let other = NewSale { imported, ..host.delivery.prepare(order("A-2")).await.unwrap() };
        let id = sale.key.id;
        let issued = host.within(commit, move |delivery, mut transaction| {
            Box::pin(async move {
                let issued = delivery.issue_in(&mut transaction, &sale).await.unwrap();
                let refused = delivery.issue_in(&mut transaction, &other).await.unwrap_err();
                assert!(matches!(refused, Error::Store(StoreError::Refused { .. })), "{refused:?}");
                issued
            })
        });
        let issued = issued.await;
        if commit {
            assert_eq!(issued.committed().key.used(), 1);
        } else {
            issued.rolled_back();
        }
        let aliases = host.store.office().unwrap();
        assert_eq!(aliases.alias(&[alias]).await.unwrap(), commit.then_some(id));
    }
    assert_eq!(host.keys().await, 1);
}

fn to_nine_uses() -> Change {
    let limit = Some(LimitChange::Set(fixtures::limited(9).limit.unwrap()));
    Change::SetTerms { at: fixtures::now(), by: Actor::admin(), expires_at: None, limit }
}

/// Two uses, a change and a product. Nobody else sees them before the commit.
async fn uses_changes_and_products_are_there_after_the_commit_alone(host: Host<impl Transact>) {
    let id = host.key_with(5).await;
    let before = host.audited().await;
    host.delivery.count_use(id, product()).await.unwrap();
    assert_eq!(host.observed().await, ["used"]);
    for (commit, used, limit) in [(false, 1, 5), (true, 3, 9)] {
        let work = host.within(commit, move |delivery, mut transaction| {
            Box::pin(async move {
                let transaction = &mut transaction;
                let first = delivery.use_in(&mut *transaction, id, product()).await.unwrap();
                let second = delivery.use_in(&mut *transaction, id, product()).await.unwrap();
                let changed = delivery.change_in(&mut *transaction, id, to_nine_uses()).await.unwrap();
                let atlas = NewProduct::new("Atlas").unwrap();
                let added = delivery.add_product_in(&mut *transaction, atlas).await.unwrap();
                assert_eq!((first.used(), second.used(), changed.used()), (2, 3, 3), "it sees its own uses");
                let outside = delivery.key(id).await.unwrap().unwrap();
                assert_eq!((outside.used(), outside.state().limit.as_count()), (1, 5), "nobody else does");
                assert_eq!(delivery.products().await.unwrap().len(), 1);
                (first, second, changed, added)
            })
        });
        let (first, second, changed, added) = work.await;
        assert_eq!(host.observed().await, [""; 0]);
        if commit {
            first.committed();
            second.committed();
            changed.committed();
            let added = added.committed();
            assert_eq!(host.delivery.product(added.id()).await.unwrap().unwrap().name(), "Atlas");
            assert_eq!(host.observed().await, ["used", "used", "changed"]);
        } else {
            for undone in [first, second, changed] {
                undone.rolled_back();
            }
            added.rolled_back();
        }
        let key = host.key(id).await;
        assert_eq!((key.used(), key.state().limit.as_count()), (used, limit), "{commit}");
        assert_eq!(host.delivery.products().await.unwrap().len(), 1 + usize::from(commit), "{commit}");
        assert_eq!(host.audited().await, before + 2 * usize::from(commit), "{commit}");
    }
    assert_eq!(host.delivery.count_use(id, product()).await.unwrap().used(), 4);
    assert_eq!(host.delivery.history(id, None, 10).await.unwrap().items.len(), 4);
}

/// A part of the transaction that the host rolls back.
async fn what_a_savepoint_undoes_has_not_happened(host: Host<impl Transact>) {
    let id = host.key_with(2).await;
    let used = host.within(true, move |delivery, mut transaction| {
        Box::pin(async move {
            delivery.use_in(&mut transaction, id, product()).await.unwrap().rolled_back();
            execute(&mut transaction, "SAVEPOINT item").await;
            delivery.use_in(&mut transaction, id, product()).await.unwrap().rolled_back();
            let refused = delivery.use_in(&mut transaction, id, product()).await.unwrap_err();
            assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
            execute(&mut transaction, "ROLLBACK TO SAVEPOINT item").await;
            delivery.use_in(&mut transaction, id, product()).await.unwrap().used()
        })
    });
    assert_eq!((used.await, host.key(id).await.used()), (2, 2));
    assert!(host.delivery.count_use(id, product()).await.is_err());
    assert_eq!(host.delivery.history(id, None, 10).await.unwrap().items.len(), 2);
}

async fn refusals_leave_the_transaction_open(host: Host<impl Transact>) {
    let (id, unknown) = (host.key_with(1).await, KeyId::from_bytes([7; 16]));
    let refused = host.within(true, move |delivery, mut transaction| {
        Box::pin(async move {
            let wrong = delivery.use_in(&mut transaction, id, ProductId::new(2).unwrap()).await.unwrap_err();
            let missing = delivery.use_in(&mut transaction, unknown, product()).await.unwrap_err();
            let revoke = Change::Revoke { at: fixtures::now(), reason: None, by: Actor::admin() };
            let gone = delivery.change_in(&mut transaction, unknown, revoke.clone()).await.unwrap_err();
            delivery.change_in(&mut transaction, id, revoke).await.unwrap().rolled_back();
            (wrong, missing, gone, delivery.use_in(&mut transaction, id, product()).await.unwrap_err())
        })
    });
    let refused = refused.await;
    assert!(
        matches!(refused, (Error::Refused { .. }, Error::UnknownKey, Error::UnknownKey, Error::UnknownKey)),
        "{refused:?}"
    );
    assert!(host.key(id).await.state().revoked.is_some());
}

/// The rule is asked about the use that is counted, with those of the same transaction.
async fn a_rule_of_the_host_sees_the_use_that_is_counted(host: Host<impl Transact>) {
    let id = host.key_with(777).await;
    for (commit, used) in [(false, 0), (true, 1)] {
        let codes = host.within(commit, move |delivery, mut transaction| {
            Box::pin(async move {
                delivery.use_in(&mut transaction, id, product()).await.unwrap().rolled_back();
                let refused = delivery.use_in(&mut transaction, id, product()).await.unwrap_err();
                refused.denied().map(Denied::code)
            })
        });
        assert_eq!((codes.await, host.key(id).await.used()), (Some("ONCE"), used));
    }
    assert_eq!(host.delivery.count_use(id, product()).await.unwrap_err().denied().map(Denied::code), Some("ONCE"));
}

/// Half of the racers are in transactions.
async fn a_race_spends_exactly_the_uses_of_the_key(host: Host<impl Transact>) {
    for (uses, spent) in [(5, 5), (5, 5), (777, 1), (5, 5), (777, 1)] {
        let id = host.key_with(uses).await;
        let inside = || async {
            let used = host.within(true, move |delivery, mut transaction| {
                Box::pin(
                    async move { delivery.use_in(&mut transaction, id, product()).await.map(Uncommitted::committed) },
                )
            });
            used.await.is_ok()
        };
        let outside = || async { host.delivery.count_use(id, product()).await.is_ok() };
        let (inside, outside) = tokio::join!(
            futures_util::future::join_all((0..5).map(|_| inside())),
            futures_util::future::join_all((0..5).map(|_| outside())),
        );
        let allowed = inside.into_iter().chain(outside).filter(|is_allowed| *is_allowed).count();
        assert_eq!((allowed, host.key(id).await.used()), (usize::try_from(spent).unwrap(), spent));
    }
}

macro_rules! promises {
    ($($promise:ident),+ $(,)?) => {
        mod on_postgres { $(test_of!(postgres $promise, super::postgres::host(false).await);)+ }
        mod on_a_pool { $(test_of!(postgres $promise, super::postgres::host(true).await);)+ }
        mod on_sqlite { $(test_of!($promise, super::sqlite::host().await);)+ }
    };
}

promises! {
    a_rollback_leaves_nothing,
    a_commit_is_an_order_a_key_and_one_message,
    a_replay_by_webhook_answers_with_the_key_and_sends_nothing,
    an_order_that_the_webhook_told_of_is_answered_with_its_key,
    an_order_told_by_both_at_once_has_one_key,
    an_imported_sale_has_its_alias_after_the_commit_alone,
    uses_changes_and_products_are_there_after_the_commit_alone,
    what_a_savepoint_undoes_has_not_happened,
    refusals_leave_the_transaction_open,
    a_rule_of_the_host_sees_the_use_that_is_counted,
    a_race_spends_exactly_the_uses_of_the_key,
}
