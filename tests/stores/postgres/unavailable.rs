//! While the database is away: in real time, for another process is killed, frozen and started again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::http::Endpoint;
use delivery_core::key::KeyId;
use delivery_core::store::{Backend, Catalog, CatalogEditor, KeyQuery, Ledger, PostgresStore, StoreError};
use delivery_testing::Shop;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{administrator, count, hand, server};
use crate::fixtures::{by_admin, by_key, facts, order, until};
use support::postgres::{Postgres, postgres, unique};

/// Keys that everybody uses at once.
const KEYS: usize = 40;
/// Callers of each server.
const CALLERS: u64 = 8;
const SECOND: Duration = Duration::from_secs(1);

/// What was answered to the uses of a key.
#[derive(Default)]
struct Uses {
    acknowledged: AtomicU64,
    /// Answered 503: not counted, or counted by a commit whose acknowledgement was lost.
    unknown: AtomicU64,
}

#[derive(Default)]
struct Load {
    keys: Vec<(String, Uses)>,
    /// Fetches that each server answered with the product.
    served: [AtomicU64; 2],
    stop: AtomicBool,
}

/// The status, which is 200, or 503 with a word on when to come again; and the answer.
async fn asked(delivery: &Delivery, endpoint: Endpoint, call: delivery_core::http::Call) -> (bool, Value) {
    let reply = endpoint.call(delivery, call).await;
    let body: Value = serde_json::from_slice(&reply.body()).unwrap();
    if reply.status() == 503 {
        let after = reply.headers().iter().find(|(name, _)| *name == http::header::RETRY_AFTER);
        let seconds = after.and_then(|(_, value)| value.to_str().ok()?.parse::<u64>().ok());
        assert!(seconds.is_some_and(|seconds| seconds > 0), "{body}");
    } else {
        assert_eq!(reply.status(), 200, "{body}");
    }
    (reply.status() == 200, body)
}

/// Fetches with several keys at once, in any order, and buys others, until told to stop: what was sold.
async fn caller(delivery: Delivery, name: u64, load: Arc<Load>) -> HashMap<String, String> {
    let (mut random, mut sold) = (StdRng::seed_from_u64(name), HashMap::new());
    for number in 0.. {
        if load.stop.load(Ordering::Relaxed) {
            break;
        }
        let mut keys: Vec<usize> = (0..KEYS).collect();
        keys.shuffle(&mut random);
        keys.truncate(random.random_range(1..KEYS));
        let fetches = keys.iter().map(async |index| {
            let (key, uses) = &load.keys[*index];
            let (served, _) = asked(&delivery, Endpoint::Product, by_key(key)).await;
            let counter = if served { &uses.acknowledged } else { &uses.unknown };
            counter.fetch_add(1, Ordering::Relaxed);
            load.served[usize::from(name >= CALLERS)].fetch_add(u64::from(served), Ordering::Relaxed);
        });
        join_all(fetches).await;
        // The same order is sent again until it is answered, as a platform does.
        let id = format!("{name}-{number}");
        loop {
            let (issued, answer) = asked(&delivery, Endpoint::Order, order(&id)).await;
            if issued {
                sold.insert(id, answer["api_key"].as_str().unwrap().to_owned());
                break;
            }
        }
        asked(&delivery, Endpoint::Validate, by_key(&load.keys[0].0)).await;
    }
    sold
}

/// Does it to the database, and returns when it is back.
async fn suffer(database: &Postgres, fault: &str) {
    let ready = || database.log().matches("ready to accept connections").count();
    let before = ready();
    match fault {
        "immediate restart" => database.signal("QUIT"),
        "fast restart" => database.signal("INT"),
        "frozen" => {
            database.signal_all("STOP");
            // Longer than any operation may take.
            tokio::time::sleep(8 * SECOND).await;
            return database.signal_all("CONT");
        }
        "backends killed" => {
            let killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'delivery'";
            administrator(database).await.execute(killed).await.unwrap();
            return;
        }
        other => panic!("{other}"),
    }
    until("the server starts again", 60, async || ready() > before).await;
}

/// Waits until both servers serve again. They have 500 looks, a hundredth of a second apart, which is five seconds.
/// Looks are counted because a machine may stand still meanwhile. The limit in real time is 20 seconds.
async fn recovered(load: &Load) {
    let served = || load.served.each_ref().map(|served| served.load(Ordering::Relaxed));
    let (before, mut looks) = (served(), 0);
    let is_recovered = async || {
        looks += 1;
        assert!(looks < 500, "no recovery within five seconds");
        served().iter().zip(before).all(|(now, before)| *now >= before + 50)
    };
    until("recovery, however slow the machine is", 20, is_recovered).await;
}

/// Every e-mail is sent in the end, once; a lease whose acknowledgement was lost runs out.
async fn messages_arrive(session: &mut PgConnection, servers: &[Shop; 2], sold: &HashMap<String, String>) {
    session.execute("UPDATE faults.delivery_message SET due_at = 0 WHERE state = 0").await.unwrap();
    let running = servers[0].delivery.start().await.unwrap();
    let waiting = "SELECT count(*) FROM faults.delivery_message WHERE state = 0";
    until("e-mails are sent", 60, async || count(session, waiting).await == 0).await;
    running.finish_sending().await;
    let messages = servers.iter().flat_map(|server| server.mailer.accepted());
    let keys: Vec<String> = messages
        .map(|message| message.text.split_whitespace().find(|word| word.starts_with("dlv_")).unwrap().to_owned())
        .collect();
    let distinct: HashSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "no e-mail twice");
    assert!(sold.values().all(|key| distinct.contains(key)), "no e-mail is lost");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn answers_are_503_and_nothing_that_was_acknowledged_is_lost() {
    let database = Postgres::start();
    let servers = [server(&database.url(), "faults").await, server(&database.url(), "faults").await];
    let [one, other] = servers.each_ref().map(|server| server.delivery.clone());
    let mut load = Load::default();
    for number in 0..KEYS {
        let (_, sold) = asked(&one, Endpoint::Order, order(&format!("first {number}"))).await;
        load.keys.push((sold["api_key"].as_str().unwrap().to_owned(), Uses::default()));
    }
    let running = [one.start().await.unwrap(), other.start().await.unwrap()];
    let load = Arc::new(load);
    let mut callers = JoinSet::new();
    for name in 0..2 * CALLERS {
        let delivery = if name < CALLERS { &one } else { &other };
        callers.spawn(caller(delivery.clone(), name, load.clone()));
    }
    for fault in ["immediate restart", "fast restart", "backends killed", "frozen"] {
        tokio::time::sleep(SECOND).await;
        suffer(&database, fault).await;
        println!("{fault}");
        recovered(&load).await;
    }
    load.stop.store(true, Ordering::Relaxed);
    let sold: HashMap<String, String> = callers.join_all().await.into_iter().flatten().collect();

    let mut unknown = 0;
    for (key, uses) in &load.keys {
        let (_, answer) = asked(&other, Endpoint::Validate, by_key(key)).await;
        let used = answer["used_count"].as_u64().unwrap();
        let (least, lost) = (uses.acknowledged.load(Ordering::Relaxed), uses.unknown.load(Ordering::Relaxed));
        assert!((least..=least + lost).contains(&used), "{used} uses of {least} to {}", least + lost);
        unknown += lost;
    }
    assert!(unknown > 0, "the faults were felt");
    for (id, key) in sold.iter().step_by(sold.len() / 100 + 1) {
        assert_eq!(asked(&one, Endpoint::Order, order(id)).await.1["api_key"], key.as_str());
    }
    let mut session = administrator(&database).await;
    let orders = count(&mut session, "SELECT count(DISTINCT order_id) FROM faults.delivery_key").await;
    assert_eq!(orders, i64::try_from(sold.len() + KEYS).unwrap(), "an order sent until it is answered is one key");
    for (promise, of, kept) in [
        ("one key an order", orders, "SELECT count(*) FROM faults.delivery_key"),
        ("one e-mail a key", orders, "SELECT count(*) FROM faults.delivery_message"),
        ("an e-mail for each key", orders, "SELECT count(DISTINCT key) FROM faults.delivery_message"),
        (
            "the history has every use",
            0,
            "SELECT sum(used)::bigint - (SELECT count(*) FROM faults.delivery_use) FROM faults.delivery_key",
        ),
    ] {
        assert_eq!(count(&mut session, kept).await, of, "{promise}");
    }
    for running in running {
        running.finish_sending().await;
    }
    messages_arrive(&mut session, &servers, &sold).await;
    assert!(!database.log().contains("deadlock detected"), "locks are taken in one order");
    session.close().await.unwrap();
    one.close().await;
}

/// A way to the database that can vanish: what was connected hears nothing any more, not even an end.
async fn tunnel(database: &Postgres) -> (String, watch::Sender<()>) {
    let (address, listener) = (database.address(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = database.url().replace(&address, &listener.local_addr().unwrap().to_string());
    let (vanish, vanished) = watch::channel(());
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let (address, mut vanished) = (address.clone(), vanished.clone());
            vanished.mark_unchanged();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(address).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    // Both ends stay open.
                    _ = vanished.changed() => std::future::pending().await,
                }
            });
        }
    });
    (url, vanish)
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_network_that_vanished_holds_up_nobody_for_longer_than_some_seconds() {
    let database = postgres();
    let ((url, vanish), schema) = (tunnel(database).await, unique());
    let store = PostgresStore::options().schema(&schema).connect(&url).await.unwrap();
    let all_at_once = async || {
        let (lists, any) = (join_all((0..10).map(|_| store.products())).await, KeyQuery::default());
        let (found, searched) = tokio::join!(store.find(KeyId::from_bytes([1; 16])), store.search(&any));
        let (added, pinged) = tokio::join!(store.add_product(facts("Guide"), by_admin()), store.ping());
        let others = [found.err(), searched.err(), added.err(), pinged.err()];
        let errors: Vec<StoreError> =
            lists.into_iter().filter_map(Result::err).chain(others.into_iter().flatten()).collect();
        // A product whose answer was lost may have been added.
        let expected =
            |error: &StoreError| matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. });
        assert!(errors.iter().all(expected), "{errors:?}");
        errors.is_empty()
    };
    assert!(all_at_once().await);
    vanish.send_replace(());
    until("sessions into nowhere are given up", 30, all_at_once).await;
    // Once more, while each session for lists waits for the answer to a statement.
    let mut hand = hand(&schema).await;
    let slow = "ALTER TABLE delivery_product RENAME TO delivery_fast; \
        CREATE VIEW delivery_product AS SELECT p.* FROM delivery_fast p, pg_sleep(3)";
    hand.execute(slow).await.unwrap();
    let vanishing = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
            WHERE wait_event = 'PgSleep' AND query LIKE '%delivery_product%'";
        until("four statements are under way", 30, async || count(&mut hand, waiting).await == 4).await;
        vanish.send_replace(());
    };
    let (lists, ()) = tokio::join!(join_all((0..4).map(|_| store.products())), vanishing);
    assert!(lists.iter().all(|list| matches!(list, Err(StoreError::Unavailable { .. }))), "{lists:?}");
    let fast = "DROP VIEW delivery_product; ALTER TABLE delivery_fast RENAME TO delivery_product";
    hand.execute(fast).await.unwrap();
    until("lists are read again", 30, async || store.products().await.is_ok()).await;
    store.close().await;
}
