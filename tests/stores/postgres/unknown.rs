//! Answers that are lost: the connection ends after a statement was sent and before its reply came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use delivery_core::key::{Actor, Change, KeyId, NewKey, SecretVersion};
use delivery_core::order::{OrderRef, Source};
use delivery_core::product::ProductId;
use delivery_core::store::{Backend, Issue, Ledger, MessageId, Notice, PostgresStore, Sale};
use delivery_core::terms::{Terms, UseLimit};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use support::postgres::{postgres, unique};

/// Where the next connection ends.
const NOWHERE: u8 = 0;
/// A statement is not delivered.
const BEFORE: u8 = 1;
/// A statement is delivered, and its reply is not.
const AFTER: u8 = 2;
/// A COMMIT is delivered, and its reply is not.
const COMMIT: u8 = 3;

/// A way to the server that ends where it is told to.
async fn proxy(server: String) -> (u16, Arc<AtomicU8>) {
    let (listener, cut) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(AtomicU8::new(NOWHERE)));
    let (port, told) = (listener.local_addr().unwrap().port(), cut.clone());
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(pass(near, far, told.clone()));
        }
    });
    (port, cut)
}

async fn pass(mut near: TcpStream, mut far: TcpStream, cut: Arc<AtomicU8>) {
    let (mut asked, mut told) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut silent = false;
    loop {
        tokio::select! {
            length = near.read(&mut asked) => {
                let Ok(length @ 1..) = length else { return };
                let packet = &asked[..length];
                // Bind is how a prepared statement is run.
                let (runs, commits) = (packet[0] == b'B', packet.windows(6).any(|word| word == b"COMMIT"));
                let ends = |at, here| here && cut.compare_exchange(at, NOWHERE, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                if ends(BEFORE, runs) {
                    return;
                }
                silent |= ends(AFTER, runs) || ends(COMMIT, commits);
                if far.write_all(packet).await.is_err() {
                    return;
                }
            }
            length = far.read(&mut told) => {
                let Ok(length @ 1..) = length else { return };
                if silent || near.write_all(&told[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

pub(super) fn key(number: u128, order: Option<&str>) -> NewKey {
    let terms = Terms { limit: UseLimit::from_count(-1).unwrap(), ..Terms::default() };
    let identity = (KeyId::from_bytes(number.to_be_bytes()), SecretVersion::from_stored(1));
    let key = NewKey::on_terms(identity, product(), "a@example.com".parse().unwrap(), terms, now());
    let order = order.map(|id| OrderRef { source: Source::webhook(), id: id.parse().unwrap() });
    NewKey { order, ..key }
}

pub(super) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap()
}

fn product() -> ProductId {
    ProductId::new(1).unwrap()
}

pub(super) fn spend() -> Change {
    Change::Use { product: product(), at: now() }
}

async fn count(hand: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(hand).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_lost_answer_is_found_out_and_nothing_happens_twice_or_not_at_all() {
    const ROUNDS: u32 = 500;
    let database = postgres();
    let schema = unique();
    let (port, cut) = proxy(database.address()).await;
    let by_proxy = database.url().replace(&database.address(), &format!("127.0.0.1:{port}"));
    let store = PostgresStore::options().schema(&schema).connect(&by_proxy).await.unwrap();
    let mut hand = PgConnection::connect(&database.url()).await.unwrap();
    hand.execute(AssertSqlSafe(format!("SET search_path = {schema}"))).await.unwrap();
    let shared = key(1, None);
    store.issue(Sale::new(shared.clone(), Vec::new())).await.unwrap();
    let (mut uses, mut orders) = (0, 0);
    for round in 0..ROUNDS {
        let at = if round % 3 == 0 { BEFORE } else { AFTER };
        cut.store(at, Ordering::SeqCst);
        if round % 2 == 0 {
            uses += 1;
            let answer = store.change(shared.id, spend(), Vec::new()).await.unwrap().unwrap().unwrap();
            assert_eq!(answer.used(), uses, "round {round}");
        } else {
            orders += 1;
            let (number, order) = (1_000 + u128::from(round), format!("order {round}"));
            let message = MessageId::new(format!("{round}@example.com")).unwrap();
            let issued =
                store.issue(Sale::new(key(number, Some(&order)), vec![Notice::purchase(message)])).await.unwrap();
            assert!(
                matches!(&issued, Issue::New(key) if key.id() == KeyId::from_bytes(number.to_be_bytes())),
                "{round}"
            );
        }
        cut.store(NOWHERE, Ordering::SeqCst);
    }
    for (what, sql, expected) in [
        ("uses", "SELECT count(*) FROM delivery_use", uses),
        ("the count", "SELECT max(used) FROM delivery_key", uses),
        ("the newest record's count", "SELECT max(used) FROM delivery_use", uses),
        ("keys", "SELECT count(*) FROM delivery_key", orders + 1),
        ("purchases", "SELECT count(*) FROM delivery_purchase", orders),
        ("messages", "SELECT count(*) FROM delivery_message", orders),
    ] {
        assert_eq!(u64::try_from(count(&mut hand, sql).await).unwrap(), expected, "{what}");
    }
    store.close().await;
}

/// In real time: a lock is held for a while, so that the key is locked before it is written.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_lost_commit_is_found_out() {
    let database = postgres();
    let schema = unique();
    let (port, cut) = proxy(database.address()).await;
    let by_proxy = database.url().replace(&database.address(), &format!("127.0.0.1:{port}"));
    let store = Arc::new(PostgresStore::options().schema(&schema).connect(&by_proxy).await.unwrap());
    let mut hand = PgConnection::connect(&database.url()).await.unwrap();
    hand.execute(AssertSqlSafe(format!("SET search_path = {schema}"))).await.unwrap();
    let key = key(1, None);
    store.issue(Sale::new(key.clone(), Vec::new())).await.unwrap();
    for round in 1..=5 {
        hand.execute("BEGIN").await.unwrap();
        hand.execute("SELECT 1 FROM delivery_key FOR UPDATE").await.unwrap();
        let revoke = Change::Revoke { at: key.issued_at, reason: None, by: Actor::admin() };
        let restore = Change::Restore { at: key.issued_at, by: Actor::admin() };
        let change = if round % 2 == 0 { restore } else { revoke };
        let changing = tokio::spawn({
            let (store, id) = (store.clone(), key.id);
            async move { store.change(id, change, Vec::new()).await }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        cut.store(COMMIT, Ordering::SeqCst);
        hand.execute("COMMIT").await.unwrap();
        let changed = changing.await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(cut.load(Ordering::SeqCst), NOWHERE, "round {round}: a commit was lost");
        assert_eq!(changed.revoked_at().is_some(), round % 2 == 1);
        assert_eq!(count(&mut hand, "SELECT count(*) FROM delivery_event").await, round, "each is one audit entry");
    }
    store.close().await;
}
