//! The doubles and strategies of `delivery-testing`: that they do what they say, and that every store takes what they make.

use std::cell::Cell;
use std::sync::Arc;

use chrono::DateTime;
use delivery_core::key::{Actor, Change, Key, Refusal};
use delivery_core::ledger::{Edit, NewSale};
use delivery_core::observer::Event;
use delivery_core::post::{NewPost, Post};
use delivery_core::product::{NewProduct, Product, ProductId};
use delivery_core::store::{Backend, CatalogEditor, KeyQuery, Ledger, PostQuery, Posts, SqliteStore, StoreError};
use delivery_testing::{Faulty, MemoryStore, strategies};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The folder of the second of two stores, what they run on, and both.
fn stores() -> (TempDir, Runtime, MemoryStore, SqliteStore) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sqlite = runtime.block_on(SqliteStore::open(folder.path().join("x.db"))).unwrap();
    (folder, runtime, MemoryStore::new(), sqlite)
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases) })
}

/// What was put in comes out: products, posts and keys, in memory and from SQLite.
async fn is_kept<S: Ledger + CatalogEditor + Posts>(
    store: &S,
    product: NewProduct,
    post: NewPost,
) -> Result<(), TestCaseError> {
    // The host's names are unique: one that was used before is refused.
    let taken = match Product::new(ProductId::new(1).unwrap(), product.clone()).host_ref() {
        Some(name) => store.product_called(name).await.unwrap().is_some(),
        None => false,
    };
    let edit = Edit::new(Actor::admin(), DateTime::UNIX_EPOCH);
    match store.add_product(product.clone(), edit.clone()).await {
        Ok(added) => {
            prop_assert!(!taken);
            let expected = Product::new(added.id(), product);
            let found = store.product(added.id()).await.unwrap();
            prop_assert_eq!(found.as_deref(), Some(&expected));
        }
        Err(StoreError::Refused { .. }) => prop_assert!(taken),
        Err(error) => panic!("{error}"),
    }
    let added = store.add_post(post.clone(), edit).await.unwrap();
    // Of all until its own time it is the newest: the last of those that came at the same time.
    let query = PostQuery { category: None, until: added.published_at(), before: None, limit: 1 };
    let listed = store.posts(&query).await.unwrap();
    prop_assert_eq!(&added, &Post::new(added.id(), post));
    prop_assert_eq!(listed.first(), Some(&added));
    Ok(())
}

#[test]
fn what_the_strategies_make_every_store_keeps_as_it_is() {
    let (_folder, runtime, memory, sqlite) = stores();
    let made = (strategies::new_product(), strategies::new_post());
    runner(100)
        .run(&made, |(product, post)| {
            runtime.block_on(async {
                is_kept(&memory, product.clone(), post.clone()).await?;
                is_kept(&sqlite, product, post).await
            })
        })
        .unwrap();
}

#[test]
fn searches_of_sqlite_are_those_in_memory() {
    let (_folder, runtime, memory, sqlite) = stores();
    let mut keys = runner(1);
    for _ in 0..support::rounds(100, 300) {
        let (key, changes) = strategies::history().new_tree(&mut keys).unwrap().current();
        runtime.block_on(async {
            let stores: [&dyn Ledger; 2] = [&memory, &sqlite];
            for store in stores {
                store.issue(NewSale::new(key.clone(), Vec::new())).await.unwrap();
                for change in &changes {
                    store.change(key.id, change.clone(), Vec::new()).await.unwrap();
                }
            }
        });
    }
    runner(support::rounds(100, 300))
        .run(&strategies::key_query(), |query: KeyQuery| {
            let (expected, found) =
                runtime.block_on(async { (search(&memory, &query).await, search(&sqlite, &query).await) });
            prop_assert_eq!(found, expected);
            Ok(())
        })
        .unwrap();
}

async fn search(store: &dyn Ledger, query: &KeyQuery) -> (Vec<Key>, bool) {
    let page = store.search(query).await.unwrap();
    (page.items, page.next.is_some())
}

/// A host's observer is told of events that it does not know, too.
#[test]
fn events_are_of_every_kind() {
    let seen = Cell::new(0_u32);
    runner(300)
        .run(&strategies::event(), |event| {
            let kind = match event {
                Event::Issued { .. } => 0,
                Event::Used { .. } => 1,
                Event::Refused { .. } => 2,
                Event::Revoked { .. } => 3,
                Event::Restored { .. } => 4,
                Event::TermsChanged { .. } => 5,
                Event::EmailChanged { .. } => 8,
                Event::MessageSent { attempt, .. } => {
                    prop_assert!(attempt >= 1);
                    6
                }
                Event::MessageFailed { .. } => 7,
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            };
            seen.set(seen.get() | 1 << kind);
            Ok(())
        })
        .unwrap();
    assert_eq!(seen.get(), 0x1ff);
}

#[test]
fn histories_to_expiry_are_refused_from_then_on_and_not_before() {
    let (refused, allowed) = (Cell::new(0), Cell::new(0));
    runner(300)
        .run(&strategies::history_to_expiry(), |(granted, changes)| {
            let mut key = Key::from(granted.clone());
            for change in changes {
                let Change::Use { at, .. } = change else { panic!("only uses") };
                match key.apply(&change) {
                    Ok(used) => {
                        prop_assert!(at < granted.expires_at);
                        key = used;
                        allowed.set(allowed.get() + 1);
                    }
                    Err(Refusal::Expired { .. }) => {
                        prop_assert!(at >= granted.expires_at);
                        refused.set(refused.get() + 1);
                    }
                    Err(refusal) => {
                        let used_up = matches!(refusal, Refusal::Exhausted { .. });
                        prop_assert!(used_up);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(refused.get() > 100 && allowed.get() > 100, "{refused:?} {allowed:?}");
}

#[tokio::test]
async fn a_seed_says_which_calls_of_a_faulty_store_fail() {
    let store = Faulty::new(Arc::new(MemoryStore::new()));
    let outcomes = async |seed| {
        store.by_chance(seed, 3);
        let mut outcomes = Vec::new();
        for _ in 0..60 {
            outcomes.push(store.ping().await.is_ok());
        }
        outcomes
    };
    let (first, again, other) = (outcomes(1).await, outcomes(1).await, outcomes(2).await);
    assert!(first == again && first != other);
}
