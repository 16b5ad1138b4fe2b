//! PostgreSQL: a transaction on a connection of the host's.

use delivery_core::Error;
use delivery_core::store::{HostTransaction, PostgresStore, StoreError};
use sqlx::{Connection, Executor, PgConnection};

use super::{Host, Transact, Work, host as open, order};
use support::postgres::{postgres, unique};

impl Transact for PostgresStore {
    async fn within<T: Send + 'static>(host: &Host<Self>, commit: bool, work: impl Work<T>) -> T {
        let mut connection = PgConnection::connect(&host.url).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        let done = work(host.delivery.clone(), HostTransaction::from(&mut transaction)).await;
        if commit { transaction.commit().await } else { transaction.rollback().await }.unwrap();
        done
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
    let refused = host.delivery.issue_in(&mut connection, &sale).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Refused { .. })), "{refused:?}");
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
    let refused = host.delivery.issue_in(&mut transaction, &sale).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Conflict { .. })), "{refused:?}");
    lock.rollback().await.unwrap();
    let path: String = sqlx::query_scalar("SHOW search_path").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(path, "\"$user\", public");
    let issued = host.delivery.issue_in(&mut transaction, &sale).await.unwrap();
    transaction.execute("INSERT INTO shop_order (id) VALUES ('A-1')").await.unwrap();
    transaction.commit().await.unwrap();
    assert!(issued.committed().new);
    assert_eq!((host.orders().await, host.keys().await, host.sent().await), (1, 1, 1));
}
