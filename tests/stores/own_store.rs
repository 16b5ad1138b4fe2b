//! The store of `examples/own_store` keeps every promise, also when it is opened again, and after a crash in the middle of a line.

#[path = "../../examples/own_store/store.rs"]
mod store;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use delivery_core::store::{Backend, Ledger, Sale};
use delivery_testing::{Fixture, Shop};
use store::FileStore;
use tempfile::TempDir;

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
    store.issue(Sale::new(sold.granted().as_ref().clone(), Vec::new())).await.unwrap();
    store.close().await;
    let length = path.metadata().unwrap().len();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(br#"{"Persist":{"keys":[{"row""#).unwrap();
    let store = place.open().await;
    assert_eq!(path.metadata().unwrap().len(), length);
    assert_eq!(store.find(sold.id()).await.unwrap(), Some(sold));
    let other = shop.paid("A-2").await.key;
    store.issue(Sale::new(other.granted().as_ref().clone(), Vec::new())).await.unwrap();
}
