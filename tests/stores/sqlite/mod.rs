//! What only a store on disk can promise: restarts, faults of the file, counts across flushing.

mod copies;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::key::{Change, Key, KeyId, NewKey, SecretVersion, Status};
use delivery_core::order::{OrderRef, Source};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{
    Backend, CatalogEditor, Edit, History, Issue, KeyQuery, Ledger, MessageId, Notice, Sale, SqliteError, SqliteStore,
};
use delivery_core::terms::{Terms, UseLimit, Validity};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
use tokio::task::JoinSet;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap()
}

fn key(number: u128, uses: i64) -> NewKey {
    let terms = Terms { validity: Validity::Never, limit: UseLimit::from_count(uses).unwrap() };
    let identity = (KeyId::from_bytes(number.to_be_bytes()), SecretVersion::from_stored(1));
    NewKey::on_terms(identity, ProductId::new(1).unwrap(), "a@example.com".parse().unwrap(), terms, now())
}

fn spend(second: i64) -> Change {
    Change::Use { product: ProductId::new(1).unwrap(), at: now() + TimeDelta::seconds(second) }
}

/// The writer of a store that was dropped lets go of the file at its next turn.
async fn open(folder: &TempDir) -> SqliteStore {
    loop {
        match SqliteStore::open(folder.path().join("delivery.db")).await {
            Err(SqliteError::InUse { .. }) => tokio::task::yield_now().await,
            opened => return opened.unwrap(),
        }
    }
}

#[tokio::test]
async fn one_store_owns_a_file_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let first = open(&folder).await;
    std::fs::hard_link(path("delivery.db"), path("hard.db")).unwrap();
    std::os::unix::fs::symlink(path("delivery.db"), path("soft.db")).unwrap();
    for name in ["delivery.db", "hard.db", "soft.db"] {
        let second = SqliteStore::open(path(name)).await;
        assert!(matches!(second, Err(SqliteError::InUse { .. })), "{name}");
    }
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file.path()).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
    }
    first.close().await;
    SqliteStore::open(path("hard.db")).await.unwrap().close().await;
}

/// A program that is being started has a copy of the descriptor, and with it the lock, for a moment.
#[tokio::test]
async fn a_lock_that_is_let_go_within_a_moment_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("delivery.db");
    let held = std::fs::File::create(&path).unwrap();
    held.lock().unwrap();
    let mut opening = Box::pin(SqliteStore::open(&path));
    assert!(futures_util::poll!(&mut opening).is_pending());
    drop(held);
    opening.await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loses_nothing_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let order = OrderRef { source: Source::webhook(), id: "A".parse().unwrap() };
    let message = vec![Notice::purchase(MessageId::new("a@example.com").unwrap())];
    for round in 0..50_u64 {
        let store = open(&folder).await;
        let granted = key(u128::from(round) + 1, -1).bought_with(order.clone());
        let issued = store.issue(Sale::new(granted, message.clone())).await.unwrap();
        assert_eq!(matches!(issued, Issue::New(_)), round == 0, "one key, however many restarts later");
        let issued = issued.into_key();
        assert_eq!(issued.used(), round);
        store.change(issued.id(), spend(0), Vec::new()).await.unwrap().unwrap().unwrap();
        if round % 2 == 0 {
            store.close().await;
        }
        // In the other rounds it is dropped as it is, with uses that are not flushed.
        drop(store);
    }
    let store = open(&folder).await;
    let later = now() + TimeDelta::days(1);
    assert_eq!(store.claim_messages(later, later, 10).await.unwrap().len(), 1);
    assert_eq!(store.history(key(1, 1).id, None, 1000).await.unwrap().items.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_order_a_thousand_restarts_later_is_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let order = OrderRef { source: Source::webhook(), id: "A".parse().unwrap() };
    for round in 1..=1000 {
        let store = open(&folder).await;
        let issued = store.issue(Sale::new(key(round, -1).bought_with(order.clone()), Vec::new())).await.unwrap();
        assert_eq!(issued.into_key().id(), key(1, -1).id);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_stay_exact_across_flushing_and_restart() {
    const KEYS: u128 = 40;
    const USES: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder).await);
    for number in 1..=KEYS {
        store.issue(Sale::new(key(number, -1), Vec::new())).await.unwrap();
    }
    let mut users = JoinSet::new();
    for number in 1..=KEYS {
        let store = store.clone();
        users.spawn(async move {
            for count in 1..=USES {
                let used = store.change(key(number, -1).id, spend(0), Vec::new()).await.unwrap().unwrap().unwrap();
                assert_eq!(used.used(), count);
                assert_eq!(store.find(used.id()).await.unwrap().unwrap().used(), count);
            }
        });
    }
    users.join_all().await;
    drop(store);
    let store = open(&folder).await;
    for number in 1..=KEYS {
        assert_eq!(store.find(key(number, -1).id).await.unwrap().unwrap().used(), USES);
        let history = store.history(key(number, -1).id, None, 1000).await.unwrap();
        assert_eq!(history.items.len(), 1000);
        assert_eq!(history.next, None);
    }
}

/// Of some keys the uses are flushed, of others they are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_keys_are_found_whether_their_uses_are_flushed_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    for number in 1..=2_500 {
        store.issue(Sale::new(key(number, 2), Vec::new())).await.unwrap();
    }
    let spend_each = async |store: &SqliteStore, of: &[u128]| {
        for number in (1..=2_500).filter(|number| of.contains(&(number % 3))) {
            store.change(key(number, 2).id, spend(0), Vec::new()).await.unwrap().unwrap().unwrap();
        }
    };
    spend_each(&store, &[0]).await;
    spend_each(&store, &[0, 1]).await;
    store.close().await;
    let store = open(&folder).await;
    spend_each(&store, &[1]).await;
    let expected: Vec<KeyId> = (1..=2_500).rev().filter(|number| number % 3 != 2).map(|n| key(n, 2).id).collect();
    for limit in [7, 700] {
        let mut query = KeyQuery { status: Some((Status::Exhausted, now())), limit, ..KeyQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = store.search(&query).await.unwrap();
            found.extend(page.items.iter().map(Key::id));
            query.before = page.next;
            if page.next.is_none() {
                break;
            }
            assert_eq!(page.items.len(), limit);
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_append_and_flush_changes_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    store.issue(Sale::new(key(1, 5), Vec::new())).await.unwrap();
    for _ in 0..3 {
        store.change(key(1, 5).id, spend(0), Vec::new()).await.unwrap().unwrap().unwrap();
    }
    // What a crash leaves behind: the files as they are now, nothing flushed, nothing closed.
    let crashed = tempfile::tempdir().unwrap();
    for file in ["delivery.db", "delivery.db-wal"] {
        std::fs::copy(folder.path().join(file), crashed.path().join(file)).unwrap();
    }
    let store = open(&crashed).await;
    for used in [4, 5] {
        let changed = store.change(key(1, 5).id, spend(0), Vec::new()).await.unwrap().unwrap().unwrap();
        assert_eq!(changed.used(), used);
    }
    assert!(store.change(key(1, 5).id, spend(0), Vec::new()).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn a_message_that_was_under_way_at_a_crash_is_due_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    store.issue(Sale::new(key(1, 1), vec![Notice::purchase(MessageId::new("a@example.com").unwrap())])).await.unwrap();
    let claim = async |store: &SqliteStore| {
        store
            .claim_messages(now(), now() + TimeDelta::minutes(5), 10)
            .await
            .unwrap()
            .pop()
            .map(|message| message.attempt)
    };
    assert_eq!(claim(&store).await, Some(1));
    assert_eq!(claim(&store).await, None);
    store.close().await;
    assert_eq!(claim(&open(&folder).await).await, Some(2));
}

#[tokio::test]
async fn every_way_opening_can_fail_has_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let error = |result: Result<SqliteStore, SqliteError>| result.err().unwrap().to_string();

    let missing = error(SqliteStore::open(path("none/delivery.db")).await);
    assert!(missing.contains("does not exist"), "{missing}");

    std::fs::write(path("text.db"), "this is no database, but a text of more than a hundred bytes. ".repeat(20))
        .unwrap();
    let text = error(SqliteStore::open(path("text.db")).await);
    assert!(text.contains("not a SQLite database"), "{text}");

    let _open = SqliteStore::open(path("used.db")).await.unwrap();
    let used = error(SqliteStore::open(path("used.db")).await);
    assert!(used.contains("in use by another process") && used.contains("PostgreSQL"), "{used}");

    SqliteStore::open(path("newer.db")).await.unwrap().close().await;
    add_newer_migration(&path("newer.db")).await;
    let newer = error(SqliteStore::open(path("newer.db")).await);
    assert!(newer.contains("newer version") && newer.contains("9999"), "{newer}");
}

async fn add_newer_migration(path: &Path) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query("INSERT INTO _delivery_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'later', 1, x'00', 0)")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::Connection::close(connection).await.unwrap();
}

#[tokio::test]
async fn the_tables_are_prefixed_and_hold_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    store
        .add_product(
            NewProduct::new("x").unwrap(),
            delivery_core::store::Edit::new(delivery_core::key::Actor::admin(), chrono::DateTime::UNIX_EPOCH),
        )
        .await
        .unwrap();
    store.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("delivery.db"));
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    assert!(tables.len() > 5);
    assert!(tables.iter().all(|table| table.starts_with("delivery_") || table == "_delivery_migrations"), "{tables:?}");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    store.close().await;
    assert!(store.ping().await.is_err());
    assert!(store.issue(Sale::new(key(1, 1), Vec::new())).await.is_err());
    assert!(store.find(key(1, 1).id).await.is_err());
    let _again = open(&folder).await;
}

/// As a backup does, or a program that copies the write-ahead log.
#[tokio::test]
async fn whoever_reads_the_file_delays_no_customer_while_a_person_is_erased() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder).await);
    let id = store.issue(Sale::new(key(1, -1), Vec::new())).await.unwrap().into_key().id();
    let mut reader = SqliteConnectOptions::new().filename(folder.path().join("delivery.db")).connect().await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT * FROM delivery_key").execute(&mut reader).await.unwrap();
    let erase = || {
        let erasing = store.clone();
        let by = Edit { at: now(), by: "alice".parse().unwrap(), detail: None };
        let (email, pseudonym) = ("a@example.com".parse().unwrap(), "erased-1@erased.invalid".parse().unwrap());
        async move { erasing.records().unwrap().erase(&email, &pseudonym, by).await }
    };
    let erased = tokio::spawn(erase());
    let mut slowest = Duration::ZERO;
    for second in 0.. {
        if erased.is_finished() {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "how long a customer waits, in real time")]
        let since = std::time::Instant::now();
        store.change(id, spend(second), Vec::new()).await.unwrap().unwrap().unwrap();
        slowest = slowest.max(since.elapsed());
        tokio::task::yield_now().await;
    }
    let error = erased.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("is forgotten, but another program reads the file"), "{error}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert_eq!(store.find(id).await.unwrap().unwrap().email().as_str(), "erased-1@erased.invalid", "that much is done");
    // It can be asked for again: once nobody reads, nothing is left.
    reader.close().await.unwrap();
    erase().await.unwrap();
    let log = std::fs::metadata(folder.path().join("delivery.db-wal")).unwrap();
    assert_eq!(log.len(), 0);
    store.close().await;
}
