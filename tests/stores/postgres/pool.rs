//! What a store leaves behind in the host's pool: nothing.

use std::time::Duration;

use delivery_core::key::Fingerprint;
use delivery_core::ledger::{NewSale, Outcome};
use delivery_core::post::NewPost;
use delivery_core::store::{
    Backend, Catalog, CatalogEditor, KeyQuery, Ledger, PostQuery, PostgresStore, Posts, StoreError,
};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool, Row};

use crate::fixtures::{by_admin, e_mail, facts, key, now, spend};
use support::postgres::{postgres, unique};

/// A pool of one connection, and a store in a schema of its own.
async fn one_connection() -> (PgPool, PostgresStore, String) {
    let pool = PgPoolOptions::new().max_connections(1).connect(&postgres().url()).await.unwrap();
    let schema = unique();
    let store = PostgresStore::options().schema(&schema).with_pool(pool.clone()).await.unwrap();
    (pool, store, schema)
}

/// Settings, locks and the transaction of the pool's only connection.
async fn state(pool: &PgPool) -> (String, String, i64, bool) {
    const SQL: &str = "SELECT current_setting('search_path'), current_setting('lock_timeout'), \
        (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), \
        now() = statement_timestamp()";
    // Unprepared: preparing a statement begins a transaction of its own.
    let row = sqlx::raw_sql(SQL).fetch_one(pool).await.unwrap();
    (row.get(0), row.get(1), row.get(2), row.get(3))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn every_call_gives_the_connection_back_as_it_was() {
    let (pool, store, _) = one_connection().await;
    let before = state(&pool).await;
    assert!(before.3, "no transaction is open");
    let id = key(1, -1).id;
    store.register(&[Fingerprint::from_bytes([1; 16])]).await.unwrap();
    store.register(&[Fingerprint::from_bytes([2; 16])]).await.unwrap_err();
    store.add_product(facts("Guide"), by_admin()).await.unwrap();
    store.issue(NewSale::new(key(1, -1), e_mail("a"))).await.unwrap();
    store.change(id, spend(0), Vec::new()).await.unwrap();
    store.find(id).await.unwrap();
    store.search(&KeyQuery::default()).await.unwrap();
    store.products().await.unwrap();
    let backend = async || sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
    let first = backend().await;
    // The second time the posts are at hand.
    let post = NewPost::new("News", "news".parse().unwrap(), now()).unwrap();
    store.add_post(post.content("x").unwrap(), by_admin()).await.unwrap();
    let query = PostQuery { category: None, until: now(), before: None, limit: 10 };
    for _ in 0..3 {
        assert_eq!(store.posts(&query).await.unwrap().len(), 1);
    }
    store.history(id, None, 10).await.unwrap();
    store.prune_history(now()).await.unwrap();
    let claimed = store.claim_messages(now(), now(), 10).await.unwrap();
    store.complete_message(claimed[0].lease, Outcome::Release).await.unwrap();
    store.failed_messages(10).await.unwrap();
    store.ping().await.unwrap();
    assert_eq!(state(&pool).await, before);
    assert_eq!(backend().await, first, "the connection is used again, and was not closed");
}

/// A name that SQL means something by is a name as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_schema_may_be_called_like_a_keyword() {
    let server = postgres();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    for name in ["order", "user", "all"] {
        let options = || PostgresStore::options().schema(name);
        let (own, pooled) = (options().connect(&server.url()).await, options().with_pool(pool.clone()).await);
        own.unwrap().issue(NewSale::new(key(1, -1), Vec::new())).await.unwrap();
        assert!(pooled.unwrap().find(key(1, -1).id).await.unwrap().is_some(), "{name}");
    }
}

/// The host needs its connection for longer than a call waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_pool_that_is_used_up_refuses_calls_and_is_not_queued_for_afterwards() {
    let (pool, store, _) = one_connection().await;
    store.issue(NewSale::new(key(1, -1), Vec::new())).await.unwrap();
    let held = pool.acquire().await.unwrap();
    let calls = (0..20).map(|_| store.find(key(1, -1).id));
    let refused = futures_util::future::join_all(calls).await;
    assert!(refused.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable { .. }))), "{refused:?}");
    assert!(matches!(store.change(key(1, -1).id, spend(0), Vec::new()).await, Err(StoreError::Unavailable { .. })));
    drop(held);
    // Nobody stands before the host in the queue: a call that did would hold the connection for up to five seconds.
    let mut held = tokio::time::timeout(Duration::from_secs(4), pool.acquire()).await.unwrap().unwrap();
    held.execute("SELECT 1").await.unwrap();
    drop(held);
    assert!(store.find(key(1, -1).id).await.unwrap().is_some());
}

/// What a statement refuses rolls its transaction back, and what breaks a session closes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_call_that_fails_leaves_no_transaction_in_the_pool() {
    let (pool, store, schema) = one_connection().await;
    let before = state(&pool).await;
    pool.execute(sqlx::AssertSqlSafe(format!("ALTER TABLE {schema}.delivery_message RENAME TO away"))).await.unwrap();
    assert!(store.claim_messages(now(), now(), 10).await.is_err());
    assert!(store.failed_messages(10).await.is_err());
    assert_eq!(state(&pool).await, before);
}
