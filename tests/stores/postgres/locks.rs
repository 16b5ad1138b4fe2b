//! Locks that somebody else holds: a hand in psql, a server that froze within its transaction. Whoever needs the locked row
//! waits for it; nobody else does.

use delivery_core::Delivery;
use delivery_core::http::Endpoint;
use delivery_core::key::KeyId;
use delivery_core::ledger::Edit;
use delivery_core::store::{Backend, PostgresStore};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use tokio::task::JoinSet;

use super::{administrator, blocks, count, hand, new_server, sell, server, server_of, url_of};
use crate::fixtures::{by_key, call, now, order, product, until};
use support::postgres::{Postgres, postgres, unique};

/// A server over a schema of its own with a product, some keys, and a session that holds locks.
struct Shop {
    delivery: Delivery,
    keys: Vec<String>,
    hand: PgConnection,
}

impl Shop {
    async fn open(keys: usize) -> Self {
        let (delivery, schema) = new_server().await;
        let keys = sell(&delivery, keys).await;
        Self { delivery, keys, hand: hand(&schema).await }
    }

    fn id(&self, key: usize) -> KeyId {
        self.delivery.verify(&self.keys[key]).unwrap()
    }

    async fn hold(&mut self, statement: &str) {
        self.hand.execute("BEGIN").await.unwrap();
        self.hand.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }

    async fn let_go(&mut self) {
        self.hand.execute("ROLLBACK").await.unwrap();
    }

    /// Fetches by every key but the first, new orders, replays and readiness, from many callers: all are answered.
    async fn others_are_served(&self, rounds: usize) {
        let mut callers = JoinSet::new();
        for (number, key) in self.keys.iter().enumerate().skip(1) {
            let (delivery, key): (Delivery, String) = (self.delivery.clone(), key.clone());
            callers.spawn(async move {
                for round in 0..rounds {
                    assert_eq!(call(&delivery, Endpoint::Product, by_key(&key)).await.0, 200);
                    for id in [format!("{number}"), format!("{number} {round}")] {
                        assert_eq!(call(&delivery, Endpoint::Order, order(&id)).await.0, 200);
                    }
                    delivery.ready().await.unwrap();
                }
            });
        }
        callers.join_all().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_locked_key_keeps_only_its_own_uses_waiting() {
    let mut shop = Shop::open(20).await;
    let (id, mut used) = (shop.id(0), 0);
    for lock in ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE"] {
        let number = "number = (SELECT min(number) FROM delivery_key)";
        shop.hold(&format!("SELECT 1 FROM delivery_key WHERE {number} {lock}")).await;
        let delivery = shop.delivery.clone();
        let waiting = [(); 5].map(|()| {
            let delivery = delivery.clone();
            tokio::spawn(async move { delivery.count_use(id, product()).await })
        });
        shop.others_are_served(5).await;
        let counted = shop.delivery.validate(&shop.keys[0]).await.unwrap().used();
        assert_eq!(counted, used, "{lock}: they wait for the lock");
        shop.let_go().await;
        for use_ in waiting {
            // Where others took longer than a use may wait, it was refused.
            match use_.await.unwrap() {
                Ok(_) => used += 1,
                Err(error) => assert_eq!(error.code(), delivery_core::ErrorCode::Unavailable, "{lock}: {error}"),
            }
        }
        // Not for ever.
        shop.hold(&format!("SELECT 1 FROM delivery_key WHERE {number} {lock}")).await;
        let refused = delivery.count_use(id, product()).await.unwrap_err();
        assert_eq!(refused.code(), delivery_core::ErrorCode::Unavailable, "{lock}: {refused}");
        shop.let_go().await;
        delivery.count_use(id, product()).await.unwrap();
        used += 1;
    }
    let counted = shop.delivery.validate(&shop.keys[0]).await.unwrap().used();
    assert_eq!(counted, used, "what was refused was not counted");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_changed_row_an_order_under_way_and_a_locked_message_keep_nobody_else_waiting() {
    let mut shop = Shop::open(20).await;
    for (statement, held) in [
        // A replay of its order does not wait; its uses do.
        ("UPDATE delivery_key SET email = 'b@example.com' WHERE number = (SELECT min(number) FROM delivery_key)", "0"),
        // As a server that froze before it could commit the same order.
        ("INSERT INTO delivery_purchase VALUES ('frozen', 'webhook', 1, 0)", "frozen"),
        ("SELECT 1 FROM delivery_message FOR UPDATE", "0"),
    ] {
        shop.hold(statement).await;
        let delivery = shop.delivery.clone();
        let waiting = tokio::spawn(async move { call(&delivery, Endpoint::Order, order(held)).await.0 });
        shop.others_are_served(5).await;
        shop.let_go().await;
        assert!([200, 503].contains(&waiting.await.unwrap()), "{statement}");
        assert_eq!(call(&shop.delivery, Endpoint::Order, order(held)).await.0, 200);
    }
}

/// A row that a hand has spoiled is refused, alone; the sessions that met it go on.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_row_that_cannot_be_read_costs_no_session() {
    const ROUNDS: usize = 5;
    let mut shop = Shop::open(3).await;
    let spoiled = shop.id(0);
    let schema: String = sqlx::query_scalar("SELECT current_schema()").fetch_one(&mut shop.hand).await.unwrap();
    let spoil = "UPDATE delivery_key SET email = 'nobody' WHERE number = (SELECT min(number) FROM delivery_key)";
    shop.hand.execute(spoil).await.unwrap();
    // A server that remembers nothing of the key, and whose sessions are its role's.
    let other = server(&url_of(postgres(), "reader", &[]).await, &schema).await.delivery;
    let served = async || {
        for key in &shop.keys[1..] {
            assert_eq!(call(&other, Endpoint::Product, by_key(key)).await.0, 200);
        }
        assert_eq!(call(&other, Endpoint::Validate, by_key(&shop.keys[0])).await.0, 500);
    };
    served().await;
    // The session of its readers too, which looks after products now and then.
    assert_eq!(call(&other, Endpoint::Products, delivery_core::http::Call::new(http::Method::GET)).await.0, 200);
    let (mut known, mut lost) = (sessions(&mut shop.hand).await, Vec::new());
    for _ in 0..ROUNDS {
        let refused = other.count_use(spoiled, product()).await.unwrap_err();
        assert_eq!(refused.code(), delivery_core::ErrorCode::Internal);
        served().await;
        let open = sessions(&mut shop.hand).await;
        lost.extend(known.into_iter().filter(|session| !open.contains(session)));
        known = open;
    }
    // Each refusal would cost one. A machine that stands still for two seconds costs one too: its look after products is given up.
    assert!(lost.len() < ROUNDS, "{lost:?}");
}

/// The sessions of that role, by their processes.
async fn sessions(hand: &mut PgConnection) -> Vec<i32> {
    const SQL: &str = "SELECT pid FROM pg_stat_activity WHERE usename = 'reader' ORDER BY pid";
    sqlx::query_scalar(SQL).fetch_all(hand).await.unwrap()
}

/// In real time: a server is killed and starts again.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_role_whose_durability_is_switched_off_later_loses_nothing() {
    let database = Postgres::start();
    let delivery = server_of(&database, "shop", &[]).await;
    let mut administrator = administrator(&database).await;
    // What is not waited for would be written in ten seconds.
    administrator.execute("ALTER SYSTEM SET wal_writer_delay = '10s'").await.unwrap();
    administrator.execute("ALTER ROLE shop SET synchronous_commit = off").await.unwrap();
    administrator
        .execute("SELECT pg_reload_conf(), pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'shop'")
        .await
        .unwrap();
    let sold = sell(&delivery, 20).await;
    database.signal_all("KILL");
    for (number, key) in sold.iter().enumerate() {
        let mut answer = Value::Null;
        let is_answered = async || {
            let status;
            (status, answer) = call(&delivery, Endpoint::Order, order(&number.to_string())).await;
            status == 200
        };
        until("the server starts again", 30, is_answered).await;
        assert_eq!(answer["api_key"], key.as_str(), "an acknowledged order is kept");
    }
}

/// A store, and a session of its schema that has run these statements, the last of them in an open transaction.
async fn beside(statements: &[&'static str]) -> (PostgresStore, PgConnection) {
    let (url, schema) = (postgres().url(), unique());
    let store = PostgresStore::options().schema(&schema).connect(&url).await.unwrap();
    let mut hand = hand(&schema).await;
    for statement in statements {
        hand.execute(*statement).await.unwrap();
    }
    (store, hand)
}

/// Commits the transaction of a session as soon as another session waits for its locks.
async fn commit_once_waited_for(hand: &mut PgConnection) {
    let holder: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *hand).await.unwrap();
    let mut watcher = administrator(postgres()).await;
    until("another session waits for the locks", 10, async || blocks(holder, &mut watcher).await).await;
    hand.execute("COMMIT").await.unwrap();
}

/// A server applies an event while another makes the events that wait due again.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn an_event_that_is_applied_meanwhile_is_not_tried_again() {
    let (store, mut hand) = beside(&[
        "INSERT INTO delivery_inbox (number, source, name, kind, body, received_at, outcome, keys, due_at, attempts, version) \
            SELECT number, 'stripe', number, 'sale', '{}', 0, 'needs_attention', '[]', 1, 1, 0 FROM generate_series(1, 2) number",
        "BEGIN",
        "UPDATE delivery_inbox SET outcome = 'issued', body = NULL, due_at = NULL WHERE number = 1",
    ])
    .await;
    let retried = tokio::spawn(async move { store.office().unwrap().retry_events(None, None, now()).await });
    commit_once_waited_for(&mut hand).await;
    assert_eq!(retried.await.unwrap().unwrap(), 1);
    assert_eq!(count(&mut hand, "SELECT sum(number)::bigint FROM delivery_inbox WHERE due_at IS NOT NULL").await, 2);
}

/// While a person is erased, another server applies an event of the same sale, and one of another sale of the person.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn sales_that_another_server_reports_meanwhile_are_known_as_an_erased_persons() {
    let (store, mut hand) = beside(&[
        "INSERT INTO delivery_inbox (number, source, name, kind, body, received_at, outcome, keys, due_at, attempts, version) \
            SELECT number, 'stripe', number, 'sale', '{\"order\":\"' || number || '\",\"email\":\"ada@example.com\"}', 0, \
                'needs_attention', '[]', 1, 1, 0 FROM generate_series(1, 2) number",
        "INSERT INTO delivery_deal (number, version, facts) VALUES (1, 1, '{}')",
        "INSERT INTO delivery_reference (source, kind, name, deal) VALUES ('stripe', 'order', '1', 1)",
        "BEGIN",
        "UPDATE delivery_deal SET version = 2 WHERE number = 1",
        "INSERT INTO delivery_deal (number, version, facts) VALUES (2, 1, '{}')",
        "INSERT INTO delivery_reference (source, kind, name, deal) VALUES ('stripe', 'order', '2', 2)",
    ])
    .await;
    let erased = tokio::spawn(async move {
        let by = Edit { at: now(), by: "alice".parse().unwrap(), detail: None };
        let (email, pseudonym) = ("ada@example.com".parse().unwrap(), "erased-1@erased.invalid".parse().unwrap());
        store.office().unwrap().erase(&email, &pseudonym, by).await
    });
    commit_once_waited_for(&mut hand).await;
    assert_eq!(erased.await.unwrap().unwrap(), []);
    let known = "SELECT sum(number)::bigint FROM delivery_deal WHERE facts LIKE '%\"is_erased\":true%'";
    assert_eq!(count(&mut hand, known).await, 3);
    assert_eq!(count(&mut hand, "SELECT count(*) FROM delivery_inbox WHERE body IS NOT NULL").await, 0);
}
