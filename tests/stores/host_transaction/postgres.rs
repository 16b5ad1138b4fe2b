//! PostgreSQL: `issue_in` on a connection of the host's.

use delivery_core::ledger::Issue;
use delivery_core::store::{PostgresStore, StoreError};
use sqlx::{Connection, Executor, PgConnection};

use super::{ChangedItsMind, Host, Transact, host as open, order};
use support::postgres::{postgres, unique};

impl Transact for PostgresStore {
    async fn transact(host: &Host<Self>, id: &'static str, commit: bool) -> Result<Issue, ChangedItsMind> {
        let sale = host.delivery.prepare(order(id)).await.unwrap();
        let mut connection = PgConnection::connect(&host.url).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let insert = sqlx::query("INSERT INTO shop_order (id) VALUES ($1)").bind(id);
        insert.execute(&mut *transaction).await.unwrap();
        let issue = host.store.issue_in(&mut transaction, &sale).await?;
        // The host's own tables are found as before.
        transaction.execute("SELECT count(*) FROM shop_order").await.unwrap();
        if !commit {
            transaction.rollback().await.unwrap();
            return Err(ChangedItsMind);
        }
        transaction.commit().await.unwrap();
        Ok(issue)
    }

    async fn orders(host: &Host<Self>) -> i64 {
        let mut connection = PgConnection::connect(&host.url).await.unwrap();
        sqlx::query_scalar("SELECT count(*) FROM shop_order").fetch_one(&mut connection).await.unwrap()
    }
}

/// A database of its own, with the host's table in the schema `public` and ours in another.
pub async fn host(pooled: bool) -> Host<PostgresStore> {
    let server = postgres();
    let name = unique();
    let mut admin = PgConnection::connect(&server.url()).await.unwrap();
    admin.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let url = format!("postgres://postgres@{}/{name}", server.address());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute("CREATE TABLE shop_order (id TEXT PRIMARY KEY)").await.unwrap();
    let options = PostgresStore::options().schema("keys");
    let store = if pooled {
        options.with_pool(sqlx::PgPool::connect(&url).await.unwrap()).await
    } else {
        options.connect_with(url.parse().unwrap()).await
    };
    open(store.unwrap(), url, None).await
}

#[tokio::test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn without_a_transaction_refuses_and_issues_nothing() {
    let host = host(false).await;
    let sale = host.delivery.prepare(order("A-1")).await.unwrap();
    let mut connection = PgConnection::connect(&host.url).await.unwrap();
    let refused = host.store.issue_in(&mut connection, &sale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(host.keys().await, 0);
}

/// What fails inside leaves the host's transaction as it was.
#[tokio::test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn after_an_error_the_transaction_of_the_host_goes_on() {
    let host = host(false).await;
    let sale = host.delivery.prepare(order("A-1")).await.unwrap();
    let mut connection = PgConnection::connect(&host.url).await.unwrap();
    let mut other = PgConnection::connect(&host.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    lock.execute("LOCK TABLE keys.delivery_purchase").await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    transaction.execute("SET LOCAL lock_timeout = 50").await.unwrap();
    let refused = host.store.issue_in(&mut transaction, &sale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused:?}");
    lock.rollback().await.unwrap();
    let path: String = sqlx::query_scalar("SHOW search_path").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(path, "\"$user\", public");
    assert!(matches!(host.store.issue_in(&mut transaction, &sale).await, Ok(Issue::New(_))));
    transaction.execute("INSERT INTO shop_order (id) VALUES ('A-1')").await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
}
