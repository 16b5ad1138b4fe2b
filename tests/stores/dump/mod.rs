//! A store is dumped and loaded: everything arrives, in either direction, all of it or nothing.

pub mod events;
mod ground;
mod moving;
mod refused;
mod sold;

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::TimeDelta;
use delivery_core::key::NewKey;
use delivery_core::ledger::{Issue, NewSale};
use delivery_core::store::{Backend, CatalogEditor, Ledger, StoreError};
use events::{ROWS, SALES, refunds_are_found};
use ground::{assert_same, closing_picture, filled, ground, picture, used};
use sold::{ALIASES, KEYS, USES, id, keyring, message, order, product, secrets};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::fixtures::{by_admin, facts, now};

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn all_that_was_sold_arrives_in_either_direction_and_selling_goes_on() {
    let ground = filled().await;
    let before = closing_picture(ground.source().await.unwrap()).await;
    let dumped = ground.dump_file("1").await.unwrap();
    let loaded = ground.load_schema("1").await.unwrap();
    assert_eq!(loaded, dumped);
    let keys = u64::try_from(KEYS).unwrap() + SALES;
    let purchases = (0..KEYS).filter(|index| order(*index).order.is_some()).count() as u64 + SALES;
    let messages = u64::try_from(KEYS / 2).unwrap() + 50 + SALES / 2;
    let (aliases, uses) = (u64::from(ALIASES), USES.unsigned_abs() + 1);
    let sold = [("keys", keys), ("purchases", purchases), ("aliases", aliases), ("uses", uses), ("messages", messages)];
    let first = [("secrets", 1), ("products", 40), ("files", 3), ("posts", 40)];
    let last = [("sign-ins", 0), ("requests for lost keys", 0)];
    let expected = [&first[..], &sold, &[("audit entries", 145)], &ROWS, &last].concat();
    assert_eq!(loaded.rows, expected);

    // Back into a file: the same bytes.
    assert_eq!(ground.dump_schema("2").await.unwrap(), dumped);
    assert!(ground.read("2") == ground.read("1"), "dumped and loaded, it is dumped as the same bytes");
    std::fs::remove_file(ground.file()).unwrap();
    assert_eq!(ground.load_file("2").await.unwrap(), dumped);
    assert_same(&closing_picture(ground.source().await.unwrap()).await, &before);
    assert_eq!(ground.dump_file("3").await.unwrap(), dumped);
    assert!(ground.read("3") == ground.read("1"));

    let target = ground.target().await.unwrap();
    assert_same(&picture(&target).await, &before);
    let foreign = target.register(&keyring("another secret that signs").fingerprints()).await;
    assert!(matches!(foreign, Err(StoreError::ForeignSecret)));
    target.register(&secrets()).await.unwrap();
    // An order that was served is served; a key counts on; what is new gets numbers of its own.
    let replay = NewKey { id: id(999_999), ..order(1) };
    let Issue::Existing(key) = target.issue(NewSale::new(replay, message(1))).await.unwrap() else {
        panic!("a second key")
    };
    assert_eq!(key.id(), id(1));
    let was = target.find(id(100)).await.unwrap().unwrap().used();
    let history = target.history(id(100), None, 1_000).await.unwrap().items.len();
    assert_eq!(used(&target, 100).await.used(), was + 1);
    assert_eq!(target.history(id(100), None, 1_000).await.unwrap().items.len(), history + 1);
    let Issue::New(_) = target.issue(NewSale::new(order(KEYS), message(1))).await.unwrap() else {
        panic!("no new key")
    };
    let new = target.add_product(facts("New"), by_admin()).await.unwrap();
    assert_eq!(new.id(), product(41));
    // Those that were leased are due once their leases have ended; those that were sent are not.
    let later = now() + TimeDelta::minutes(6);
    let due = target.claim_messages(later, later + TimeDelta::minutes(5), 100_000).await.unwrap();
    let waiting = usize::try_from(messages).unwrap() - 200 + 1;
    assert_eq!(due.len(), waiting);
    refunds_are_found(&target).await;
    target.close().await;
}

/// Counts that are not in their keys' rows yet are dumped all the same, while the server goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_beside_a_server_has_every_use_that_was_answered() {
    let ground = ground();
    let store = ground.source().await.unwrap();
    store.register(&secrets()).await.unwrap();
    for index in 0..20 {
        store.issue(NewSale::new(order(index), Vec::new())).await.unwrap();
    }
    for round in 1..=3_u64 {
        for index in 0..20 {
            used(&store, index).await;
        }
        ground.dump_file("beside").await.unwrap();
        let copy = ground.folder.path().join(format!("copy-{round}.db"));
        ground.load_into("beside", &copy, &secrets()).await.unwrap();
        let copy = delivery_core::store::SqliteStore::open(copy).await.unwrap();
        for index in 0..20 {
            assert_eq!(copy.find(id(index)).await.unwrap().unwrap().used(), round);
            assert_eq!(copy.history(id(index), None, 100).await.unwrap().items.len() as u64, round);
        }
        assert_eq!(used(&copy, 0).await.used(), round + 1);
        copy.close().await;
    }
    store.close().await;
}

/// The newest numbers of a store may be those of uses that were pruned: keys still name them, and no other use may get them.
#[tokio::test(flavor = "multi_thread")]
async fn uses_that_were_pruned_keep_their_numbers() {
    let ground = ground();
    let store = ground.source().await.unwrap();
    store.register(&secrets()).await.unwrap();
    store.issue(NewSale::new(order(1), Vec::new())).await.unwrap();
    for _ in 0..50 {
        used(&store, 1).await;
    }
    assert_eq!(store.prune_history(now() + TimeDelta::days(1)).await.unwrap(), 50);
    store.close().await;
    ground.dump_file("pruned").await.unwrap();
    std::fs::remove_file(ground.file()).unwrap();
    ground.load_file("pruned").await.unwrap();
    for round in 51..54 {
        let store = ground.source().await.unwrap();
        assert_eq!(used(&store, 1).await.used(), round);
        store.close().await;
        let store = ground.source().await.unwrap();
        assert_eq!(store.find(id(1)).await.unwrap().unwrap().used(), round, "it is in the file");
        store.close().await;
    }
}

/// A server that is asked to sell in the middle of a load waits for numbers, and gets none of the dump's.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_server_that_waits_for_its_first_sale_gets_numbers_of_its_own() {
    let ground = ground();
    let store = ground.source().await.unwrap();
    store.register(&secrets()).await.unwrap();
    for index in 0..50 {
        store.issue(NewSale::new(order(index), message(index))).await.unwrap();
        used(&store, index).await;
    }
    store.close().await;
    ground.dump_file("1").await.unwrap();
    let waiting = Arc::new(ground.target().await.unwrap());
    let (mut asked, server) = (None, waiting.clone());
    let progress = |_| {
        asked.get_or_insert_with(|| {
            let server = server.clone();
            tokio::spawn(async move { server.issue(NewSale::new(order(1_000), message(1))).await })
        });
    };
    ground.options().load(ground.dumped("1"), &ground.url, &secrets(), progress).await.unwrap();
    let sold = asked.unwrap().await.unwrap();
    assert!(matches!(sold, Ok(Issue::New(_)) | Err(StoreError::Unavailable { .. } | StoreError::Conflict { .. })));
    for index in 1_001..1_050 {
        let issued = waiting.issue(NewSale::new(order(index), message(index))).await.unwrap();
        assert!(matches!(issued, Issue::New(_)));
        assert_eq!(used(&*waiting, index).await.used(), 1);
    }
    for index in 0..50 {
        assert_eq!(used(&*waiting, index).await.used(), 2);
    }
    waiting.close().await;
}

/// What one database has and the other has not could not be dumped from the one and loaded into the other.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn both_databases_have_the_same_columns() {
    let ground = ground();
    ground.source().await.unwrap().close().await;
    ground.target().await.unwrap().close().await;
    let mut file = SqliteConnection::connect(ground.file().to_str().unwrap()).await.unwrap();
    let in_file = "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c \
        WHERE t.type = 'table' AND t.name LIKE 'delivery_%'";
    let in_file: BTreeSet<String> =
        sqlx::query_scalar(in_file).fetch_all(&mut file).await.unwrap().into_iter().collect();
    let mut schema = PgConnection::connect(&ground.url).await.unwrap();
    let in_schema = "SELECT table_name || '.' || column_name FROM information_schema.columns \
        WHERE table_schema = $1 AND table_name LIKE 'delivery_%'";
    let in_schema = sqlx::query_scalar(in_schema).bind(&ground.schema).fetch_all(&mut schema).await.unwrap();
    let in_schema: BTreeSet<String> = in_schema.into_iter().collect();
    let only_in_file: Vec<&str> = in_file.difference(&in_schema).map(String::as_str).collect();
    let only_in_schema: Vec<&str> = in_schema.difference(&in_file).map(String::as_str).collect();
    // Counts stand apart in the file, and uses are its redo log; servers that share a schema need versions.
    let expected = ["delivery_count.key", "delivery_count.last_use", "delivery_count.used", "delivery_key.exhausted"];
    assert_eq!(
        only_in_file,
        [expected.as_slice(), &["delivery_watermark.number", "delivery_watermark.one", "delivery_watermark.reserved"]]
            .concat()
    );
    let expected = ["delivery_catalog.one", "delivery_catalog.version"];
    let key = ["delivery_key.last_use", "delivery_key.used", "delivery_key.version"];
    assert_eq!(only_in_schema, [expected.as_slice(), &key].concat());
}
