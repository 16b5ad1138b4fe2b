//! A server remembers keys as it left them: what that saves, and that nobody is served what no longer is.

use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::http::Endpoint;
use futures_util::future::join_all;
use serde_json::json;
use sqlx::{AssertSqlSafe, Executor};

use super::{administrator, hand, new_server, sell, server_of, two_servers};
use crate::fixtures::{by_key, call, facts, product, sold};
use support::postgres::{Postgres, postgres};

/// Buys the guide and fetches it twice, so that the server knows the key by heart.
async fn known_key(delivery: &Delivery) -> String {
    let key = sold(delivery, "A").await;
    for _ in 0..2 {
        assert_eq!(fetch(delivery, &key).await, "200");
    }
    key
}

/// The status, or the code of the error.
async fn fetch(delivery: &Delivery, key: &str) -> String {
    let (status, answer) = call(delivery, Endpoint::Product, by_key(key)).await;
    answer["error"]["code"].as_str().map_or_else(|| status.to_string(), str::to_owned)
}

/// Changes rows of keys by hand, behind the back of every server.
async fn by_hand(schema: &str, changes: &str) {
    hand(schema).await.execute(AssertSqlSafe(format!("UPDATE delivery_key SET {changes}"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn what_became_of_a_key_behind_a_servers_back_is_what_its_next_use_comes_to() {
    // A search goes by the state: 0 valid, 1 used up, 3 revoked. What has expired is marked later.
    for (changes, expected, used, state) in [
        ("max_uses = used", "EXCEEDED_USES", 2, 1),
        ("max_uses = used + 1", "200", 3, 1),
        ("max_uses = used + 2", "200", 3, 0),
        ("expires_at = issued_at", "EXPIRED_KEY", 2, 0),
        ("product = 2", "WRONG_PRODUCT", 2, 0),
        ("revoked_at = 1", "INVALID_KEY", 2, 3),
        ("used = used + 100", "200", 103, 0),
    ] {
        let (delivery, schema) = new_server().await;
        delivery.add_product(facts("Map")).await.unwrap();
        let key = known_key(&delivery).await;
        by_hand(&schema, changes).await;
        assert_eq!(fetch(&delivery, &key).await, expected, "after {changes}");
        let row = sqlx::query_as::<_, (i64, i16)>("SELECT used, state FROM delivery_key");
        let row = row.fetch_one(&mut hand(&schema).await).await;
        assert_eq!(row.unwrap(), (used, state), "after {changes}");
    }
}

/// Keys that are fetched at once share a batch: what has become of some concerns no other.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_key_that_was_changed_takes_no_other_of_its_batch_along() {
    const KEYS: usize = 40;
    let (delivery, schema) = new_server().await;
    let keys = sell(&delivery, KEYS).await;
    let all_at_once = async || join_all(keys.iter().map(|key| fetch(&delivery, key))).await;
    for _ in 0..2 {
        assert!(all_at_once().await.iter().all(|status| status == "200"));
    }
    by_hand(&schema, "used = used + 1, max_uses = used + 1 + order_id::int % 2 WHERE order_id::int % 5 < 2").await;
    let refused = all_at_once().await.into_iter().filter(|status| status != "200").collect::<Vec<_>>();
    assert_eq!(refused, vec!["EXCEEDED_USES"; KEYS / 5]);
    let counts = "SELECT (SELECT sum(used) FROM delivery_key)::bigint, (SELECT count(*) FROM delivery_use)";
    let counts: (i64, i64) = sqlx::query_as(counts).fetch_one(&mut hand(&schema).await).await.unwrap();
    let served = i64::try_from(3 * KEYS - KEYS / 5).unwrap();
    assert_eq!(counts, (served + i64::try_from(KEYS * 2 / 5).unwrap(), served), "each use is a row, and no other is");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_key_that_a_server_knows_as_used_up_is_served_once_it_may_be_used_again() {
    let (delivery, schema) = new_server().await;
    let key = sold(&delivery, "A").await;
    by_hand(&schema, "max_uses = 2").await;
    for expected in ["200", "200"] {
        assert_eq!(fetch(&delivery, &key).await, expected);
    }
    by_hand(&schema, "max_uses = 3").await;
    for expected in ["200", "EXCEEDED_USES", "EXCEEDED_USES"] {
        assert_eq!(fetch(&delivery, &key).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn two_servers_that_take_turns_with_a_key_count_on_from_each_other() {
    let servers = two_servers().await;
    let key = known_key(&servers[0].delivery).await;
    let id = servers[0].delivery.verify(&key).unwrap();
    let mut expected = 2;
    // In turns of one, two and three uses: each finds what it knew old, or not.
    for turn in 0..300 {
        for _ in 0..=turn % 3 {
            expected += 1;
            let used = servers[turn % 2].delivery.count_use(id, product()).await.unwrap().used();
            assert_eq!(used, expected, "turn {turn}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_key_that_is_used_again_and_again_is_not_asked_for_each_time() {
    const USES: usize = 20;
    // Of its own: in the log of all there are the statements of others that failed.
    let database = Postgres::start();
    let delivery = server_of(&database, "recorded", &["log_statement = 'all'"]).await;
    let key = known_key(&delivery).await;
    let recorded = |statement| database.log().matches(statement).count();
    let (asked, written) = (recorded("FROM delivery_key k WHERE k.id = ANY"), recorded("UPDATE delivery_key k"));
    assert!(written > 0, "statements are recorded");
    for _ in 0..USES {
        assert_eq!(fetch(&delivery, &key).await, "200");
    }
    assert_eq!(recorded("UPDATE delivery_key k") - written, USES);
    let asked = recorded("FROM delivery_key k WHERE k.id = ANY") - asked;
    // A machine that stands still for half a second has it asked for once more.
    assert!(asked < USES / 2, "{asked} times");
}

/// In real time: the server's rest is.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_session_that_was_cut_off_at_rest_is_replaced_and_nobody_notices() {
    let database = postgres();
    let delivery = server_of(database, "rested", &[]).await;
    let key = known_key(&delivery).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rested'";
    let mut administrator = administrator(database).await;
    for round in 0..3 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(administrator.execute(cut).await.unwrap().rows_affected() > 0);
        for _ in 0..2 {
            assert_eq!(fetch(&delivery, &key).await, "200", "round {round}");
        }
    }
    let (_, answer) = call(&delivery, Endpoint::Validate, by_key(&key)).await;
    assert_eq!(answer["used_count"], json!(2 + 3 * 2));
}
