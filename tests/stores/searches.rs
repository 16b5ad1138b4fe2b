//! Searches in a store with more keys than a search sorts.

use delivery_core::key::{KeyId, Status};
use delivery_core::store::{Backend, KeyQuery, Ledger, SqliteStore};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use support::postgres::unique;

use crate::fixtures::now;
use crate::places::postgresql;
use crate::postgres::hand;

/// More keys than a search by the beginning of an address sorts.
const MANY: u32 = 20_100;

/// Inserts the keys 1 to [`MANY`], each a second newer than the one before. One in a hundred is revoked.
fn insert(series: &str, id: &str) -> String {
    let used = if id.starts_with("unhex") { "" } else { ", used" };
    let value = if used.is_empty() { "" } else { ", 0" };
    format!(
        "{series} INSERT INTO delivery_key (number, id, secret_version, product, email, issued_at, granted_until, \
         granted_uses, expires_at, max_uses, revoked_at, revoked_by{used}) \
         SELECT i, {id}, 1, 1, CASE WHEN i % 10000 = 5 THEN 'rare' ELSE 'Buyer' END || i || '@example.com', \
         1700000000, 4000000000, -1, 4000000000, -1, CASE WHEN i % 100 = 0 THEN 1700000000000 END, \
         CASE WHEN i % 100 = 0 THEN 'admin' END{value} FROM n"
    )
}

/// The id of key `number`.
fn id(number: u32) -> KeyId {
    let text = format!("{:012x}7000800000000000{number:04x}", 1_700_000_000_000_u64 + u64::from(number) * 1000);
    KeyId::from_bytes(u128::from_str_radix(&text, 16).unwrap().to_be_bytes())
}

async fn are_found(store: &impl Ledger) {
    let search = async |prefix: &str, status: Option<Status>, before: Option<u32>, limit: usize| {
        let (email_prefix, before) = (Some(prefix.to_owned()), before.map(id));
        let status = status.map(|status| (status, now()));
        let query = KeyQuery { email_prefix, status, before, limit, ..KeyQuery::default() };
        let page = store.search(&query).await.unwrap();
        (page.items.iter().map(delivery_core::key::Key::id).collect::<Vec<_>>(), page.next)
    };
    let ids = |numbers: &[u32]| numbers.iter().copied().map(id).collect::<Vec<_>>();
    for (prefix, status, before, expected) in [
        ("buyer", None, None, [MANY, MANY - 1, MANY - 2]),
        ("BUYER", None, Some(1000), [999, 998, 997]),
        ("buyer", None, Some(10_006), [10_004, 10_003, 10_002]),
        ("buyer", Some(Status::Revoked), None, [MANY, MANY - 100, MANY - 200]),
        ("buyer", Some(Status::Valid), None, [MANY - 1, MANY - 2, MANY - 3]),
        ("buyer1999", None, None, [19_999, 19_998, 19_997]),
    ] {
        let (found, next) = search(prefix, status, before, 3).await;
        assert_eq!((found, next.is_some()), (ids(&expected), true), "{prefix} {status:?} {before:?}");
    }
    // Very many keys have the beginning, and the newest of the store do not fill the page.
    let (revoked, next) = search("buyer", Some(Status::Revoked), None, 300).await;
    assert_eq!((revoked.len(), revoked.last(), next), (201, Some(&id(100)), None));
    assert_eq!(search("rare", None, None, 3).await, (ids(&[20_005, 10_005, 5]), None));
    assert_eq!(search("nobody", None, None, 3).await, (Vec::new(), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_found_by_a_beginning_that_very_many_addresses_have_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("delivery.db");
    SqliteStore::open(&file).await.unwrap().close().await;
    let mut hand = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let series = format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})");
    let id = "unhex(printf('%012x7000800000000000%04x', 1700000000000 + i * 1000, i))";
    hand.execute(AssertSqlSafe(insert(&series, id))).await.unwrap();
    hand.close().await.unwrap();
    let store = SqliteStore::open(&file).await.unwrap();
    are_found(&store).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn keys_are_found_by_a_beginning_that_very_many_addresses_have_in_postgres() {
    let schema = unique();
    let store = postgresql(&schema, false).await;
    let mut hand = hand(&schema).await;
    let id = "decode(lpad(to_hex(1700000000000 + i * 1000), 12, '0') || '7000800000000000' || lpad(to_hex(i), 4, '0'), 'hex')";
    let series = format!("WITH n (i) AS (SELECT generate_series(1::bigint, {MANY}))");
    hand.execute(AssertSqlSafe(insert(&series, id))).await.unwrap();
    hand.execute("ANALYZE delivery_key").await.unwrap();
    are_found(&store).await;
    store.close().await;
}
