//! SQLite: a transaction on the store's own writer.

use std::time::Duration;

use delivery_core::email::Email;
use delivery_core::ledger::NewSale;
use delivery_core::store::{Backend, HostTransaction, Ledger, SqliteStore, StoreError};
use delivery_core::terms::OwnTerms;
use delivery_core::{Delivery, Error};
use sqlx::{Connection, Executor};

use super::{ChangedItsMind, Host, Transact, Work, host as open, order};
use crate::fixtures::product;
use crate::places::{crashed, sqlite};

impl Transact for SqliteStore {
    async fn within<T: Send + 'static>(host: &Host<Self>, commit: bool, work: impl Work<T>) -> T {
        let (done, at_last) = tokio::sync::oneshot::channel();
        let delivery = host.delivery.clone();
        let ended = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                let _ = done.send(work(delivery, HostTransaction::from(&mut transaction)).await);
                if commit { Ok(()) } else { Err(ChangedItsMind) }
            })
        });
        assert_eq!(ended.await.is_ok(), commit);
        at_last.await.unwrap()
    }
}

pub async fn host() -> Host<SqliteStore> {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(&folder).await;
    execute(&store, &["CREATE TABLE shop_order (id TEXT PRIMARY KEY)"]).await;
    open(store, String::new(), Some(folder)).await
}

/// Statements of the host's, in a transaction.
async fn execute(store: &SqliteStore, statements: &'static [&'static str]) {
    let work = store.transaction(move |mut transaction| {
        Box::pin(async move {
            for statement in statements {
                transaction.execute(*statement).await.unwrap();
            }
            Ok::<(), StoreError>(())
        })
    });
    work.await.unwrap();
}

/// Keys that are issued in one transaction, at whose end the host's code may crash.
async fn issue(store: &SqliteStore, delivery: Delivery, sales: [NewSale; 2], crashes: bool) -> Result<(), StoreError> {
    let work = store.transaction(move |mut transaction| {
        Box::pin(async move {
            for sale in &sales {
                delivery.issue_in(&mut transaction, sale).await.unwrap().rolled_back();
            }
            assert!(!crashes, "a bug of the host's");
            Ok(())
        })
    });
    work.await
}

/// Two keys by hand in one transaction, which a crash of the host's code rolls back.
#[tokio::test]
async fn goes_on_after_a_panic_of_the_host() {
    let host = host().await;
    let (email, terms) = ("a@example.com".parse::<Email>().unwrap(), OwnTerms::default());
    let by_hand = async || host.delivery.prepare_by_hand(product(), email.clone(), terms, true).await.unwrap();
    let sales = [by_hand().await, by_hand().await];
    let (store, delivery, doomed) = (host.store.clone(), host.delivery.clone(), sales.clone());
    let crash = tokio::spawn(async move { issue(&store, delivery, doomed, true).await });
    assert!(crash.await.unwrap_err().is_panic());
    assert_eq!((host.keys().await, host.sent().await), (0, 0));
    issue(&host.store, host.delivery.clone(), sales, false).await.unwrap();
    assert_eq!((host.keys().await, host.sent().await), (2, 2));
}

/// A host that rolls back a part of its transaction, and one that ends it by itself.
#[tokio::test]
async fn what_the_host_rolled_back_or_committed_itself_is_what_the_store_knows() {
    for (before, after, committed) in [
        ("SAVEPOINT item", "ROLLBACK TO item", Some(false)),
        ("SAVEPOINT item", "RELEASE item", Some(true)),
        ("SELECT 1", "ROLLBACK; BEGIN", Some(false)),
        ("SELECT 1", "COMMIT", None),
    ] {
        let host = host().await;
        let sale = host.delivery.prepare(order("A-1")).await.unwrap();
        let id = sale.key.id;
        let delivery = host.delivery.clone();
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                transaction.execute(before).await.unwrap();
                delivery.issue_in(&mut transaction, &sale).await.unwrap().rolled_back();
                sqlx::raw_sql(after).execute(&mut *transaction).await.unwrap();
                Ok::<(), StoreError>(())
            })
        });
        let is_known = match (work.await, committed) {
            (Ok(()), Some(committed)) => committed,
            (Err(StoreError::Unknown { .. }), None) => true,
            (ended, _) => panic!("{after}: {ended:?}"),
        };
        assert_eq!(host.store.find(id).await.unwrap().is_some(), is_known, "{after}");
        // Numbers go on: what is sold next is sold, and used.
        for order in ["A-1", "A-2", "A-3"] {
            let id = host.delivery.verify(&host.webhook(order).await).unwrap();
            assert_eq!(host.delivery.count_use(id, product()).await.unwrap().used(), 1, "{after}");
        }
        assert_eq!(host.keys().await, 3, "{after}");
    }
}

/// The driver's own way to begin a part of a transaction.
#[tokio::test]
async fn a_transaction_inside_the_transaction_is_a_savepoint() {
    for commit in [false, true] {
        let host = host().await;
        let (sale, delivery) = (host.delivery.prepare(order("A-1")).await.unwrap(), host.delivery.clone());
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                delivery.issue_in(&mut transaction, &sale).await.unwrap().rolled_back();
                let mut inside = transaction.begin().await.unwrap();
                inside.execute("INSERT INTO shop_order (id) VALUES ('A-1')").await.unwrap();
                let ended = if commit { inside.commit().await } else { inside.rollback().await };
                ended.unwrap();
                Ok::<(), StoreError>(())
            })
        });
        work.await.unwrap();
        assert_eq!((host.orders().await, host.keys().await, host.sent().await), (i64::from(commit), 1, 1));
    }
}

/// SQLite rolls the whole transaction back by itself then, and the driver does not learn of it.
#[tokio::test]
async fn a_transaction_that_sqlite_ends_by_itself_ends_no_later_one() {
    const SETUP: &[&str] = &[
        "CREATE TABLE big (content BLOB)",
        "INSERT INTO shop_order (id) VALUES ('twice')",
        "PRAGMA max_page_count = 1000",
    ];
    // A full disk may leave the transaction open, and then it goes on if the host does.
    for (statement, is_error) in [
        ("INSERT OR ROLLBACK INTO shop_order (id) VALUES ('twice')", true),
        ("INSERT OR ROLLBACK INTO shop_order (id) VALUES ('twice')", false),
        ("INSERT INTO big SELECT zeroblob(9000000)", true),
    ] {
        let host = host().await;
        execute(&host.store, SETUP).await;
        let (sale, delivery) = (host.delivery.prepare(order("A-1")).await.unwrap(), host.delivery.clone());
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                delivery.issue_in(&mut transaction, &sale).await.unwrap().rolled_back();
                assert!(transaction.execute(statement).await.is_err());
                if is_error { Err(StoreError::Unsupported) } else { Ok(()) }
            })
        });
        assert!(work.await.is_err(), "{statement}");
        assert_eq!((host.keys().await, host.sent().await), (0, 0), "{statement}");
        assert!(host.bought("A-1").await.new, "{statement}");
        assert_eq!((host.keys().await, host.sent().await), (1, 1), "{statement}");
    }
}

/// Time is the runtime's: nobody waits for four seconds.
#[tokio::test]
async fn rolls_back_a_transaction_that_takes_too_long() {
    let host = host().await;
    let (sale, delivery) = (host.delivery.prepare(order("A-1")).await.unwrap(), host.delivery.clone());
    let work = host.store.transaction(move |mut transaction| {
        Box::pin(async move {
            delivery.issue_in(&mut transaction, &sale).await.unwrap().rolled_back();
            tokio::time::pause();
            tokio::time::advance(Duration::from_millis(4001)).await;
            tokio::time::resume();
            std::future::pending::<Result<(), StoreError>>().await
        })
    });
    let refused = work.await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
    assert_eq!(host.keys().await, 0);
    assert!(host.delivery.validate(&host.webhook("A-1").await).await.is_ok());
}

/// Counts are flushed later, except those of a transaction. A crash mixes neither up.
#[tokio::test]
async fn uses_inside_and_outside_are_counted_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let host = open(sqlite(&folder).await, String::new(), None).await;
    let id = host.key_with(-1).await;
    for uses in [1, 2, 3] {
        host.delivery.count_use(id, product()).await.unwrap();
        let used = host.within(true, move |delivery, mut transaction| {
            Box::pin(async move { delivery.use_in(&mut transaction, id, product()).await.unwrap().committed().used() })
        });
        assert_eq!(used.await, 2 * uses);
    }
    host.delivery.count_use(id, product()).await.unwrap();
    let crashed = crashed(&folder);
    host.store.close().await;
    for place in [crashed, folder] {
        let store = sqlite(&place).await;
        assert_eq!(store.find(id).await.unwrap().unwrap().used(), 7);
        assert_eq!(store.history(id, None, 10).await.unwrap().items.len(), 7);
    }
}

/// A transaction on the file of another shop.
#[tokio::test]
async fn a_transaction_of_another_store_is_refused() {
    let (one, other) = (host().await, host().await);
    let (id, delivery) = (one.key_with(1).await, one.delivery.clone());
    let refused = other.within(true, move |_, mut transaction| {
        Box::pin(async move { delivery.use_in(&mut transaction, id, product()).await.unwrap_err() })
    });
    let refused = refused.await;
    assert!(matches!(refused, Error::Store(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(one.key(id).await.used(), 0);
}

/// What comes after the end of a transaction would otherwise be committed by itself.
#[tokio::test]
async fn nothing_is_done_once_the_transaction_has_ended() {
    for end in ["ROLLBACK", "COMMIT"] {
        let host = host().await;
        let (id, delivery) = (host.key_with(5).await, host.delivery.clone());
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                transaction.execute(end).await.unwrap();
                Ok::<_, StoreError>(delivery.use_in(&mut transaction, id, product()).await.map(|_| ()).unwrap_err())
            })
        });
        // The commit of what has ended fails.
        assert!(matches!(work.await, Err(StoreError::Unknown { .. })), "{end}");
        assert_eq!(host.key(id).await.used(), 0, "{end}");
        assert_eq!(host.delivery.count_use(id, product()).await.unwrap().used(), 1, "{end}");
    }
}
