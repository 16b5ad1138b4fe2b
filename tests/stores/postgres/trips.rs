//! What a batch asks the server: in which order, and on how many trips.

use delivery_core::key::Rules;
use delivery_core::ledger::{Fetch, RequestId};
use delivery_core::store::{Backend, Ledger, PostgresStore};
use support::postgres::{postgres, unique};

use super::url_of;
use crate::dump::events::{refund, sale, sold_id};
use crate::fixtures::{now, product};

/// A store whose statements stand in the log of the server.
async fn logged() -> PostgresStore {
    let url = url_of(postgres(), "logged", &["log_statement = 'all'"]).await;
    PostgresStore::options().schema(unique()).connect(&url).await.unwrap()
}

/// The statements of the first transaction in this part of the log.
fn transaction(log: &str) -> Vec<&str> {
    let asked = log.lines().filter_map(|line| {
        let (kind, sql) = line.split_once("LOG:  ")?.1.split_once(": ")?;
        // Beside it another session looks whether products were changed.
        let is_asked = kind == "statement" || kind.starts_with("execute");
        (is_asked && !sql.contains("delivery_catalog")).then_some(sql)
    });
    let begun: Vec<&str> = asked.skip_while(|sql| !sql.starts_with("BEGIN")).collect();
    let end = begun.iter().position(|sql| *sql == "COMMIT").expect("a transaction that is committed");
    begun[..=end].to_vec()
}

/// On one thread: what is submitted together is one batch.
#[tokio::test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_batch_of_a_request_and_an_event_locks_in_one_order_and_asks_nothing_in_vain() {
    let store = logged().await;
    for index in 0..2 {
        assert_eq!(store.receive(sale(index)).await.unwrap().issued.len(), 1);
    }
    let fetch = |name: &str| Fetch {
        product: product(),
        at: now(),
        request: RequestId::of(name.as_bytes()),
        rules: Rules::NONE,
    };
    store.fetch(sold_id(1), fetch("a")).await.unwrap().unwrap().unwrap();

    let before = postgres().log().len();
    store.fetch(sold_id(1), fetch("b")).await.unwrap().unwrap().unwrap();
    let log = postgres().log();
    let asked = transaction(&log[before..]);
    assert_eq!(asked.len(), 6, "{asked:#?}");

    let before = log.len();
    let (fetched, refunded) = tokio::join!(store.fetch(sold_id(1), fetch("c")), store.receive(refund(0)));
    assert_eq!(fetched.unwrap().unwrap().unwrap().key.used(), 3);
    assert_eq!(refunded.unwrap().changed.len(), 1);
    let log = postgres().log();
    let asked = transaction(&log[before..]);
    let table =
        |sql: &&str| ["delivery_inbox", "delivery_deal", "delivery_key"].into_iter().find(|table| sql.contains(table));
    let locks: Vec<_> = asked.iter().filter(|sql| sql.contains("FOR UPDATE")).filter_map(table).collect();
    assert_eq!(locks, ["delivery_inbox", "delivery_deal", "delivery_key"], "{asked:#?}");
    store.close().await;
}
