//! SQLite: a transaction on the store's own writer.

use std::time::Duration;

use delivery_core::email::Email;
use delivery_core::ledger::{Issue, NewSale};
use delivery_core::store::{Ledger, SqliteStore, StoreError};
use delivery_core::terms::OwnTerms;
use sqlx::{Connection, Executor};

use super::{ChangedItsMind, Host, Transact, host as open, order};
use crate::fixtures::product;
use crate::places::sqlite;

impl Transact for SqliteStore {
    async fn transact(host: &Host<Self>, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind> {
        let sale = host.delivery.prepare(order(id)).await.unwrap();
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                let insert = sqlx::query("INSERT INTO shop_order (id) VALUES (?)").bind(id);
                insert.execute(&mut *transaction).await.unwrap();
                let issue = transaction.issue(&sale).await?;
                if commit { Ok(issue) } else { Err(ChangedItsMind) }
            })
        });
        work.await
    }

    async fn orders(host: &Host<Self>) -> i64 {
        let count = host.store.transaction(|mut transaction| {
            Box::pin(async move {
                let count = sqlx::query_scalar("SELECT count(*) FROM shop_order").fetch_one(&mut *transaction).await;
                Ok::<i64, StoreError>(count.unwrap())
            })
        });
        count.await.unwrap()
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
async fn issue(store: &SqliteStore, sales: [NewSale; 2], crashes: bool) -> Result<(), StoreError> {
    let work = store.transaction(move |mut transaction| {
        Box::pin(async move {
            for sale in &sales {
                transaction.issue(sale).await?;
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
    let (store, doomed) = (host.store.clone(), sales.clone());
    let crash = tokio::spawn(async move { issue(&store, doomed, true).await });
    assert!(crash.await.unwrap_err().is_panic());
    assert_eq!((host.keys().await, host.sent().await), (0, 0));
    issue(&host.store, sales, false).await.unwrap();
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
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                transaction.execute(before).await.unwrap();
                transaction.issue(&sale).await?;
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
        let sale = host.delivery.prepare(order("A-1")).await.unwrap();
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                transaction.issue(&sale).await?;
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
        let sale = host.delivery.prepare(order("A-1")).await.unwrap();
        let work = host.store.transaction(move |mut transaction| {
            Box::pin(async move {
                transaction.issue(&sale).await?;
                assert!(transaction.execute(statement).await.is_err());
                if is_error { Err(StoreError::Unsupported) } else { Ok(()) }
            })
        });
        assert!(work.await.is_err(), "{statement}");
        assert_eq!((host.keys().await, host.sent().await), (0, 0), "{statement}");
        let issued = host.transact("A-1", true).await.unwrap();
        assert!(matches!(issued, Issue::New(_)), "{statement}");
        assert_eq!((host.keys().await, host.sent().await), (1, 1), "{statement}");
    }
}

/// Time is the runtime's: nobody waits for four seconds.
#[tokio::test]
async fn rolls_back_a_transaction_that_takes_too_long() {
    let host = host().await;
    let sale = host.delivery.prepare(order("A-1")).await.unwrap();
    let work = host.store.transaction(move |mut transaction| {
        Box::pin(async move {
            transaction.issue(&sale).await?;
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
