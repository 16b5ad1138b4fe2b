//! A store moves from its SQLite file into PostgreSQL: everything arrives, from wherever it was interrupted, and never can
//! both be sold from.

pub mod events;
mod ground;
mod sold;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::key::{Actor, Change, NewKey};
use delivery_core::store::{
    Backend, Catalog, CatalogEditor, Issue, Ledger, Outcome, PostgresError, Progress, Sale, SqliteError, StoreError,
    Transfer, TransferError,
};
use events::{ROWS, SALES, refunds_are_found};
use ground::{Ground, assert_same, closing_picture, filled, ground, picture, used};
use sold::{KEYS, USES, clock, id, keyring, message, order, product};
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};
use support::postgres::unique;

use crate::fixtures::{by_admin, facts, now};

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn all_that_was_sold_arrives_and_selling_goes_on() {
    let ground = filled().await;
    let before = closing_picture(ground.source().await.unwrap()).await;
    let moved = ground.run().await.unwrap();
    let counts: Vec<_> = moved.iter().map(|moved| (moved.what, moved.rows)).collect();
    let keys = u64::try_from(KEYS).unwrap() + SALES;
    let purchases = (0..KEYS).filter(|index| order(*index).order.is_some()).count() as u64 + SALES;
    let messages = u64::try_from(KEYS / 2).unwrap() + 50 + SALES / 2;
    let sold = [("keys", keys), ("purchases", purchases), ("uses", USES.unsigned_abs() + 1), ("messages", messages)];
    let expected = [&[("products", 40), ("posts", 40)][..], &sold, &[("audit entries", 141)], &ROWS].concat();
    assert_eq!(counts, expected);

    let target = ground.target().await.unwrap();
    assert_same(&picture(&target).await, &before);
    let foreign = target.register(&keyring("another secret that signs").fingerprints()).await;
    assert!(matches!(foreign, Err(StoreError::ForeignSecret)));
    target.register(&keyring("a secret that signs keys").fingerprints()).await.unwrap();
    // An order that was served is served; a key counts on; what is new gets numbers of its own.
    let replay = NewKey { id: id(999_999), ..order(1) };
    let Issue::Existing(key) = target.issue(Sale::new(replay, message(1))).await.unwrap() else {
        panic!("a second key")
    };
    assert_eq!(key.id(), id(1));
    let was = target.find(id(100)).await.unwrap().unwrap().used();
    let history = target.history(id(100), None, 1_000).await.unwrap().items.len();
    assert_eq!(used(&target, 100).await.used(), was + 1);
    assert_eq!(target.history(id(100), None, 1_000).await.unwrap().items.len(), history + 1);
    let Issue::New(_) = target.issue(Sale::new(order(KEYS), message(1))).await.unwrap() else { panic!("no new key") };
    let new = target.add_product(facts("New"), by_admin()).await.unwrap();
    assert_eq!(new.id(), product(41));
    // Those that were leased are due; those that were sent are not.
    let due = target.claim_messages(now(), now() + TimeDelta::minutes(5), 100_000).await.unwrap();
    let waiting = usize::try_from(messages).unwrap() - 300 + 1;
    assert_eq!(due.len(), waiting);
    refunds_are_found(&target).await;
    target.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_move_that_is_interrupted_anywhere_goes_on_and_catches_up() {
    let ground = filled().await;
    for (round, reports) in [1, 3, 4, 6, 7, 8, 9, 11, 12, 15, 18, 21, 24].into_iter().enumerate() {
        assert!(!ground.run_until(reports).await, "{reports}");
        assert!(ground.is_unfinished().await);
        // The seller goes on for a while after all.
        let source = ground.source().await.unwrap();
        used(&source, 200).await;
        let revoke = Change::Revoke { at: now(), reason: None, by: Actor::admin() };
        source.change(id(300 + round as u128), revoke, Vec::new()).await.unwrap().unwrap().unwrap();
        source.issue(Sale::new(order(KEYS + round as u128), message(1))).await.unwrap();
        source.prune_history(now() - TimeDelta::days(1)).await.unwrap();
        source.close().await;
    }
    let source = ground.source().await.unwrap();
    source.prune_history(now() + TimeDelta::days(1)).await.unwrap();
    let before = closing_picture(source).await;
    let moved = ground.run().await.unwrap();
    assert_eq!(moved.iter().find(|moved| moved.what == "uses").map(|moved| moved.rows), Some(0));
    let target = ground.target().await.unwrap();
    assert_same(&picture(&target).await, &before);
    // The uses that were forgotten have numbers that no other use gets.
    for _ in 0..3 {
        used(&target, 1_500).await;
    }
    assert_eq!(target.history(id(1_500), None, 1_000).await.unwrap().items.len(), 3);
    for index in 100..200 {
        assert_eq!(target.history(id(index), None, 1_000).await.unwrap().items, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_copy_that_differs_is_noticed_and_the_next_run_mends_it() {
    let original = filled().await;
    let before = closing_picture(original.source().await.unwrap()).await;
    for damage in [
        "UPDATE delivery_key SET used = used + 1 WHERE number = (SELECT max(number) FROM delivery_key)",
        "DELETE FROM delivery_use WHERE number = (SELECT max(number) FROM delivery_use)",
        "INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
         VALUES (99999999, 1, 'purchase', 'a@example.com', 'a@b', 0, 0)",
        "UPDATE delivery_product SET content = content || ' ' WHERE id = 40",
    ] {
        let ground = Arc::new(ground());
        std::fs::copy(original.file(), ground.file()).unwrap();
        let mut damaged = false;
        let clock = clock();
        let moved = ground.open().await.unwrap().run(&clock, |progress| {
            if progress.checking && !damaged {
                damaged = true;
                let ground = ground.clone();
                let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                std::thread::spawn(move || runtime().block_on(ground.execute(damage))).join().unwrap();
            }
        });
        assert!(matches!(moved.await, Err(TransferError::Differs { .. })), "{damage}");
        assert!(ground.is_unfinished().await);
        ground.run().await.unwrap();
        assert_same(&picture(&ground.target().await.unwrap()).await, &before);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn progress_counts_every_row_of_every_kind_once_copied_and_once_compared() {
    let ground = filled().await;
    let mut ends = Vec::new();
    let (mut last, clock) = (None::<Progress>, clock());
    let moved = ground.open().await.unwrap().run(&clock, |progress| {
        assert!(progress.done <= progress.of);
        if let Some(last) = last.filter(|last| last.what == progress.what && last.checking == progress.checking) {
            assert!(last.done < progress.done);
        }
        if progress.done == progress.of {
            ends.push((progress.checking, progress.what, progress.of));
        }
        last = Some(progress);
    });
    let moved = moved.await.unwrap();
    let expected: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|checking| moved.iter().map(move |moved| (checking, moved.what, moved.rows)))
        .collect();
    assert_eq!(ends, expected);
}

/// The transfer, once PostgreSQL has let the store go that was closed: the process of its session ends, and gives its lock back, after
/// the client has left.
async fn once_left(ground: &Ground) -> Transfer {
    let opened = async {
        loop {
            match ground.open().await {
                Err(TransferError::InUse) => tokio::task::yield_now().await,
                opened => return opened.unwrap(),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), opened).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn at_most_one_of_the_two_can_be_sold_from() {
    let ground = filled().await;
    let source = ground.source().await.unwrap();
    // While a server has the file …
    assert!(matches!(ground.open().await, Err(TransferError::Source(SqliteError::InUse { .. }))));
    source.close().await;
    // … or has written to the schema, nothing moves.
    let target = ground.target().await.unwrap();
    target.register(&keyring("a secret that signs keys").fingerprints()).await.unwrap();
    assert!(matches!(ground.open().await, Err(TransferError::InUse)));
    target.close().await;
    // One that only reads so far is kept from writing.
    let reader = ground.target().await.unwrap();
    let transfer = once_left(&ground).await;
    assert!(matches!(ground.open().await, Err(TransferError::Source(SqliteError::InUse { .. }))));
    assert!(matches!(reader.issue(Sale::new(order(1), Vec::new())).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(ground.target().await, Err(PostgresError::Busy)));
    assert!(matches!(ground.source().await, Err(SqliteError::InUse { .. })));
    transfer.run(&clock(), |_| {}).await.unwrap();
    // It knows other secrets than the store that is there now: it must start again. The file opens no more.
    assert!(matches!(reader.issue(Sale::new(order(1), Vec::new())).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(reader.find(id(1)).await, Err(StoreError::Unavailable { .. })));
    reader.close().await;
    assert!(ground.target().await.unwrap().issue(Sale::new(order(1), Vec::new())).await.is_ok());
    let error = ground.source().await.unwrap_err();
    assert!(error.to_string().contains("was moved to PostgreSQL at 2026-11-21T10:00:00Z"), "{error}");
    // Once more changes nothing, here or elsewhere.
    assert!(matches!(ground.run().await, Err(TransferError::Finished { at }) if at == now()));
    let elsewhere = Transfer::open_to_schema(ground.file(), &ground.url, &unique()).await;
    assert!(matches!(elsewhere, Err(TransferError::MovedElsewhere { at }) if at == now()));
    // As the message says, if the new database is lost.
    let mut file = SqliteConnection::connect(ground.file().to_str().unwrap()).await.unwrap();
    file.execute("DELETE FROM delivery_transfer").await.unwrap();
    file.close().await.unwrap();
    let store = ground.source().await.unwrap();
    assert!(store.find(id(1)).await.unwrap().is_some());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_crash_at_the_very_end_leaves_neither_to_sell_from_until_the_move_is_run_again() {
    let ground = ground();
    ground.add_product("Book").await;
    let older_copy =
        Ground { folder: tempfile::tempdir().unwrap(), url: ground.url.clone(), schema: ground.schema.clone() };
    assert!(!ground.run_until(1).await);
    std::fs::copy(ground.file(), older_copy.file()).unwrap();
    ground.run().await.unwrap();
    // The target's mark is the last thing to go.
    ground.execute("UPDATE delivery_transfer SET finished_at = NULL").await;
    assert!(matches!(ground.source().await, Err(SqliteError::Moved { .. })));
    assert!(ground.is_unfinished().await);
    ground.run().await.unwrap();
    assert_eq!(ground.target().await.unwrap().products().await.unwrap().len(), 1);
    // What was copied in between knows nothing of the end.
    let error = older_copy.run().await.unwrap_err();
    assert!(matches!(error, TransferError::OldCopy { at } if at == now()), "{error}");
    // A crash right after the beginning: the source is marked, the target is not.
    ground.execute("DELETE FROM delivery_transfer; DELETE FROM delivery_product").await;
    std::fs::copy(older_copy.file(), ground.file()).unwrap();
    ground.run().await.unwrap();
    assert_eq!(ground.target().await.unwrap().products().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_file_that_is_served_under_another_name_does_not_move() {
    let ground = ground();
    let store = ground.source().await.unwrap();
    store.issue(Sale::new(order(1), message(1))).await.unwrap();
    used(&store, 1).await;
    let leased = store.claim_messages(now(), now() + TimeDelta::minutes(5), 1).await.unwrap();
    let other_name = ground.folder.path().join("other.db");
    std::fs::hard_link(ground.file(), &other_name).unwrap();
    for suffix in ["-wal", "-shm"] {
        let of = |file: &Path| PathBuf::from(format!("{}{suffix}", file.display()));
        std::fs::hard_link(of(&ground.file()), of(&other_name)).unwrap();
    }
    let moving = Transfer::open_to_schema(&other_name, &ground.url, &ground.schema).await;
    assert!(matches!(moving, Err(TransferError::Source(SqliteError::InUse { .. }))), "{moving:?}");
    // The server that has it notices nothing: its e-mail is leased, its counts are its own.
    assert_eq!(store.claim_messages(now(), now() + TimeDelta::minutes(5), 1).await.unwrap(), []);
    let at = now();
    store.complete_message(leased[0].lease, Outcome::Sent { at }).await.unwrap();
    store.close().await;
    let store = ground.source().await.unwrap();
    assert_eq!(used(&store, 1).await.used(), 2);
    assert_eq!(store.claim_messages(now() + TimeDelta::days(1), now() + TimeDelta::days(2), 1).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let ground = ground();
    assert!(matches!(ground.open().await, Err(TransferError::NoSource { .. })));
    assert!(!ground.file().exists());
    for foreign in
        [&b""[..], b"something else, and longer than the head of a database would be, which has 100 bytes .........."]
    {
        std::fs::write(ground.file(), foreign).unwrap();
        let refused = ground.open().await;
        assert!(matches!(
            refused,
            Err(TransferError::NotAStore { .. } | TransferError::Source(SqliteError::NotADatabase { .. }))
        ));
        assert_eq!(std::fs::read(ground.file()).unwrap(), foreign, "it is as it was");
        std::fs::remove_file(ground.file()).unwrap();
    }
    ground.add_product("Book").await;
    for (url, refusal) in [
        ("mysql://x/y", "must be an address such as postgres://"),
        ("postgres://postgres@127.0.0.1:1/x", "cannot be connected to"),
    ] {
        let error = Transfer::open(ground.file(), url).await.unwrap_err();
        assert!(error.to_string().contains(refusal), "{error}");
    }
    // A schema with something of its own, or with another store that was moved, or is being moved.
    let target = ground.target().await.unwrap();
    target.add_product(facts("Other"), by_admin()).await.unwrap();
    target.close().await;
    assert!(matches!(ground.open().await, Err(TransferError::Occupied { .. })));
    assert_eq!(ground.target().await.unwrap().products().await.unwrap().len(), 1);
    let other = Ground { folder: tempfile::tempdir().unwrap(), schema: unique(), ..ground };
    let ground = Ground { folder: ground.folder, url: other.url.clone(), schema: other.schema.clone() };
    other.add_product("Other").await;
    assert!(!other.run_until(1).await);
    assert!(matches!(ground.open().await, Err(TransferError::Occupied { .. })));
    other.run().await.unwrap();
    assert!(matches!(ground.open().await, Err(TransferError::Occupied { .. })));
    // Whatever was refused, the source is still there to sell from.
    assert_eq!(ground.source().await.unwrap().products().await.unwrap().len(), 1);
    assert!(Path::exists(&ground.file()));
}

/// A table that one database has more of than the other could not be copied as it is.
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
