//! SQLite: a transaction on the store's own writer.

use std::time::Duration;

use delivery_core::product::ProductId;
use delivery_core::store::{Issue, Ledger, SqliteStore, StoreError};
use delivery_core::terms::OwnTerms;
use sqlx::{Connection, Executor};
use tokio::task::JoinSet;

use super::{ChangedItsMind, Host, Transact, host as open, order};

impl Transact for Host<SqliteStore> {
    async fn transact(&self, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind> {
        let sale = self.delivery.prepare(order(id)).await.unwrap();
        let work = self.store.transaction(move |mut transaction| {
            Box::pin(async move {
                let insert = sqlx::query("INSERT INTO shop_order (id) VALUES (?)").bind(id);
                insert.execute(&mut *transaction).await.unwrap();
                let issue = transaction.issue(&sale).await?;
                if commit { Ok(issue) } else { Err(ChangedItsMind) }
            })
        });
        work.await
    }

    async fn orders(&self) -> i64 {
        let count = self.store.transaction(|mut transaction| {
            Box::pin(async move {
                let count = sqlx::query_scalar("SELECT count(*) FROM shop_order").fetch_one(&mut *transaction).await;
                Ok::<i64, StoreError>(count.unwrap())
            })
        });
        count.await.unwrap()
    }
}

pub async fn host(folder: &tempfile::TempDir) -> Host<SqliteStore> {
    let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
    let make = store.transaction(|mut transaction| {
        Box::pin(async move {
            transaction.execute("CREATE TABLE shop_order (id TEXT PRIMARY KEY)").await.unwrap();
            Ok::<(), StoreError>(())
        })
    });
    make.await.unwrap();
    open(store, String::new()).await
}

/// Two keys by hand in one transaction, which a crash of the host's code rolls back.
#[tokio::test]
async fn goes_on_after_a_panic_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder).await;
    let by_hand = || {
        host.delivery.prepare_by_hand(
            ProductId::new(1).unwrap(),
            "a@example.com".parse().unwrap(),
            OwnTerms::default(),
            true,
        )
    };
    let sales = [by_hand().await.unwrap(), by_hand().await.unwrap()];
    let store = host.store.clone();
    let doomed = sales.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let work = store.transaction(move |mut transaction| {
            Box::pin(async move {
                for sale in &doomed {
                    transaction.issue(sale).await?;
                }
                panic!("a bug of the host's");
                #[expect(unreachable_code, reason = "the type of the error")]
                Ok::<(), StoreError>(())
            })
        });
        work.await
    });
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_panic());
    assert_eq!((host.keys().await, host.sent().await), (0, 0));
    let work = host.store.transaction(move |mut transaction| {
        Box::pin(async move {
            for sale in &sales {
                transaction.issue(sale).await?;
            }
            Ok::<(), StoreError>(())
        })
    });
    work.await.unwrap();
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
        let folder = tempfile::tempdir().unwrap();
        let host = host(&folder).await;
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
            assert_eq!(host.delivery.count_use(id, ProductId::new(1).unwrap()).await.unwrap().used(), 1, "{after}");
        }
        assert_eq!(host.keys().await, 3, "{after}");
    }
}

/// The driver's own way to begin a part of a transaction.
#[tokio::test]
async fn a_transaction_inside_the_transaction_is_a_savepoint() {
    for commit in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let host = host(&folder).await;
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
    // A full disk may leave the transaction open, and then it goes on if the host does.
    for (statement, is_error) in [
        ("INSERT OR ROLLBACK INTO shop_order (id) VALUES ('twice')", true),
        ("INSERT OR ROLLBACK INTO shop_order (id) VALUES ('twice')", false),
        ("INSERT INTO big SELECT zeroblob(9000000)", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let host = host(&folder).await;
        let setup = host.store.transaction(|mut transaction| {
            Box::pin(async move {
                transaction.execute("CREATE TABLE big (content BLOB)").await.unwrap();
                transaction.execute("INSERT INTO shop_order (id) VALUES ('twice')").await.unwrap();
                transaction.execute("PRAGMA max_page_count = 1000").await.unwrap();
                Ok::<(), StoreError>(())
            })
        });
        setup.await.unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder).await;
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
