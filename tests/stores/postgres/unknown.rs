//! Answers that are lost: the connection ends after a statement was sent and before its reply came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use delivery_core::key::{Actor, Change};
use delivery_core::ledger::{Issue, NewSale};
use delivery_core::store::{Backend, Ledger, PostgresStore, StoreError};
use sqlx::{Executor, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{administrator, blocks, count, hand};
use crate::fixtures::{e_mail, key, patient, reference, used};
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

/// A store in a new schema that is reached by such a way, where that ends, and a session that goes straight to the schema.
async fn behind_a_proxy() -> (PostgresStore, Arc<AtomicU8>, PgConnection) {
    let (database, schema) = (postgres(), unique());
    let (port, cut) = proxy(database.address()).await;
    let by_proxy = database.url().replace(&database.address(), &format!("127.0.0.1:{port}"));
    let store = PostgresStore::options().schema(&schema).connect(&by_proxy).await.unwrap();
    (store, cut, hand(&schema).await)
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_lost_answer_is_found_out_and_nothing_happens_twice_or_not_at_all() {
    const ROUNDS: u32 = 60;
    let (store, cut, mut hand) = behind_a_proxy().await;
    let shared = key(1, -1);
    store.issue(NewSale::new(shared.clone(), Vec::new())).await.unwrap();
    let (mut uses, mut orders) = (0, 0);
    for round in 0..ROUNDS {
        let at = if round % 3 == 0 { BEFORE } else { AFTER };
        cut.store(at, Ordering::SeqCst);
        if round % 2 == 0 {
            uses += 1;
            assert_eq!(used(&store, shared.id, 0).await.used(), uses, "round {round}");
        } else {
            orders += 1;
            let (number, order) = (1_000 + u128::from(round), format!("order {round}"));
            let granted = key(number, -1).bought_with(reference(&order));
            let id = granted.id;
            let issued = store.issue(NewSale::new(granted, e_mail(&round.to_string()))).await.unwrap();
            assert!(matches!(&issued, Issue::New(key) if key.id() == id), "{round}");
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

/// In real time: a lock is held until the change has met it, so that the key is locked before it is written.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_lost_commit_is_found_out() {
    let (store, cut, mut hand) = behind_a_proxy().await;
    let (store, key) = (Arc::new(store), key(1, -1));
    store.issue(NewSale::new(key.clone(), Vec::new())).await.unwrap();
    let mut watcher = administrator(postgres()).await;
    let holder: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut hand).await.unwrap();
    for round in 1..=5 {
        hand.execute("BEGIN").await.unwrap();
        hand.execute("SELECT 1 FROM delivery_key FOR UPDATE").await.unwrap();
        let revoke = Change::Revoke { at: key.issued_at, reason: None, by: Actor::admin() };
        let restore = Change::Restore { at: key.issued_at, by: Actor::admin() };
        let change = if round % 2 == 0 { restore } else { revoke };
        let changing = tokio::spawn({
            let (store, id) = (store.clone(), key.id);
            let is_busy = |changed: &Result<_, _>| matches!(changed, Err(StoreError::Conflict { .. }));
            async move { patient(|| store.change(id, change.clone(), Vec::new()), is_busy).await }
        });
        // It waits for a tenth of a second, and then for the next attempt. Nobody may have looked at the right time.
        let met = async {
            while !blocks(holder, &mut watcher).await {}
            while blocks(holder, &mut watcher).await {}
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), met).await;
        cut.store(COMMIT, Ordering::SeqCst);
        hand.execute("COMMIT").await.unwrap();
        let changed = changing.await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(cut.load(Ordering::SeqCst), NOWHERE, "round {round}: a commit was lost");
        assert_eq!(changed.revoked_at().is_some(), round % 2 == 1);
        assert_eq!(count(&mut hand, "SELECT count(*) FROM delivery_event").await, round, "each is one audit entry");
    }
    store.close().await;
}
