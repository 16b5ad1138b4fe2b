//! The store of `examples/own_store` keeps every promise, also when it is opened again, and after a crash in the middle of a line.

#[path = "../../examples/own_store/store.rs"]
mod store;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use delivery_core::ledger::NewSale;
use delivery_core::store::{Backend, Ledger};
use delivery_testing::{Fixture, Shop};
use futures_util::future::join_all;
use store::FileStore;
use tempfile::TempDir;

use super::fixtures::{key, spend};

struct InAFile(TempDir);

fn file() -> InAFile {
    InAFile(tempfile::tempdir().unwrap())
}

impl Fixture for InAFile {
    type Store = FileStore;

    async fn open(&self) -> Arc<FileStore> {
        Arc::new(FileStore::open(&self.0.path().join("store.jsonl")).await.unwrap())
    }
}

delivery_testing::conformance!(ledger, crate::own_store::file());
delivery_testing::conformance!(reopened, crate::own_store::file());

#[tokio::test]
async fn a_line_that_a_crash_cut_off_is_removed_and_those_before_it_are_kept() {
    let (shop, place) = (Shop::new().await, file());
    let path = place.0.path().join("store.jsonl");
    let store = place.open().await;
    let sold = shop.paid("A-1").await.key;
    store.issue(NewSale::new(sold.granted().as_ref().clone(), Vec::new())).await.unwrap();
    store.close().await;
    let length = path.metadata().unwrap().len();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(br#"{"Persist":{"keys":[{"row""#).unwrap();
    let store = place.open().await;
    assert_eq!(path.metadata().unwrap().len(), length);
    assert_eq!(store.find(sold.id()).await.unwrap(), Some(sold));
    let other = shop.paid("A-2").await.key;
    store.issue(NewSale::new(other.granted().as_ref().clone(), Vec::new())).await.unwrap();
}

/// Each attempt writes a line or two. A hundred callers that race make each other try again once, not a hundred times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_race_for_a_key_take_turns() {
    const RACERS: usize = 100;
    let place = file();
    let store = place.open().await;
    let id = store.issue(NewSale::new(key(1, -1), Vec::new())).await.unwrap().into_key().id();
    let uses = (0..RACERS).map(|_| store.change(id, spend(0), Vec::new()));
    assert!(join_all(uses).await.into_iter().all(|used| used.unwrap().unwrap().is_ok()));
    let lines = std::fs::read_to_string(place.0.path().join("store.jsonl")).unwrap().lines().count();
    assert!(lines <= 5 * RACERS, "{lines} lines");
}
