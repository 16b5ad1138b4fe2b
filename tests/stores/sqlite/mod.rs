//! What only a store on disk can promise: restarts, faults of the file, counts across flushing.

mod copies;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::email::Email;
use delivery_core::key::{Key, KeyId, Status};
use delivery_core::ledger::{Edit, Issue, NewSale};
use delivery_core::store::{Backend, CatalogEditor, KeyQuery, Ledger, LostKeys, LostScan, SqliteError, SqliteStore};
use futures_util::future::join_all;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tempfile::TempDir;

use crate::fixtures::{FIRST_VERSION, by_admin, e_mail, facts, key, now, reference, used};
use crate::places::crashed;

/// The writer of a store that was dropped lets go of the file at its next turn.
async fn open(folder: &TempDir) -> SqliteStore {
    let opening = async {
        loop {
            match SqliteStore::open(folder.path().join("delivery.db")).await {
                Err(SqliteError::InUse { .. }) => tokio::task::yield_now().await,
                opened => return opened.unwrap(),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), opening).await.expect("a file that nobody uses")
}

/// A new store, in a folder.
async fn opened() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    (folder, store)
}

/// A session by hand.
async fn session(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

#[tokio::test]
async fn one_store_owns_a_file_whatever_its_name() {
    let (folder, first) = opened().await;
    let path = |name: &str| folder.path().join(name);
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
    const ROUNDS: u64 = 30;
    let folder = tempfile::tempdir().unwrap();
    let (order, message) = (reference("A"), e_mail("a"));
    for round in 0..ROUNDS {
        let store = open(&folder).await;
        let granted = key(u128::from(round) + 1, -1).bought_with(order.clone());
        let issued = store.issue(NewSale::new(granted, message.clone())).await.unwrap();
        assert_eq!(matches!(issued, Issue::New(_)), round == 0, "one key, however many restarts later");
        let issued = issued.into_key();
        assert_eq!((issued.id(), issued.used()), (key(1, -1).id, round));
        used(&store, issued.id(), 0).await;
        if round % 2 == 0 {
            store.close().await;
        }
        // In the other rounds it is dropped as it is, with uses that are not flushed.
        drop(store);
    }
    let store = open(&folder).await;
    let later = now() + TimeDelta::days(1);
    assert_eq!(store.claim_messages(later, later, 10).await.unwrap().len(), 1);
    assert_eq!(store.history(key(1, 1).id, None, 1000).await.unwrap().items.len() as u64, ROUNDS);
}

/// Of some keys the uses are flushed, of others they are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_keys_are_found_whether_their_uses_are_flushed_or_not() {
    let (folder, store) = opened().await;
    for number in 1..=2_500 {
        store.issue(NewSale::new(key(number, 2), Vec::new())).await.unwrap();
    }
    let spend_each = async |store: &SqliteStore, of: &[u128]| {
        for number in (1..=2_500).filter(|number| of.contains(&(number % 3))) {
            used(store, key(number, 2).id, 0).await;
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

#[tokio::test]
async fn uses_whose_history_is_pruned_stay_counted_after_a_crash() {
    let (folder, store) = opened().await;
    let sold = key(1, -1);
    store.issue(NewSale::new(sold.clone(), Vec::new())).await.unwrap();
    for second in 1..=3 {
        used(&store, sold.id, second).await;
    }
    assert_eq!(store.prune_history(now() + TimeDelta::days(1)).await.unwrap(), 3);
    let folder = crashed(&folder);
    assert_eq!(open(&folder).await.find(sold.id).await.unwrap().unwrap().used(), 3);
}

#[tokio::test]
async fn a_message_that_was_under_way_at_a_crash_is_due_at_the_next_start() {
    let (folder, store) = opened().await;
    store.issue(NewSale::new(key(1, 1), e_mail("a"))).await.unwrap();
    let claim = async |store: &SqliteStore| {
        let claimed = store.claim_messages(now(), now() + TimeDelta::minutes(5), 10).await.unwrap();
        claimed.first().map(|message| message.attempt)
    };
    assert_eq!(claim(&store).await, Some(1));
    assert_eq!(claim(&store).await, None);
    store.close().await;
    assert_eq!(claim(&open(&folder).await).await, Some(2));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_fails_and_holds_no_lease() {
    let (folder, store) = opened().await;
    store.issue(NewSale::new(key(1, 1), e_mail("a"))).await.unwrap();
    let (file, lease) = (folder.path().join("delivery.db"), now() + TimeDelta::minutes(1));
    assert_eq!(store.claim_messages(now(), lease, 10).await.unwrap().len(), 1);
    let mut hand = session(&file).await;
    sqlx::query("UPDATE delivery_key SET email = 'nobody'").execute(&mut hand).await.unwrap();
    assert!(store.claim_messages(lease, lease + TimeDelta::minutes(1), 10).await.unwrap().is_empty());
    let state = sqlx::query_as::<_, (i64, i64)>("SELECT state, leased FROM delivery_message");
    assert_eq!(state.fetch_one(&mut hand).await.unwrap(), (2, 0));
}

/// Else anybody could have sales wait for as many commits.
#[tokio::test]
async fn strangers_who_ask_for_keys_at_once_share_a_commit() {
    let (folder, store) = opened().await;
    let log = || std::fs::metadata(folder.path().join("delivery.db-wal")).unwrap().len();
    let before = log();
    let emails: Vec<Email> = (0..100).map(|index| format!("stranger{index}@example.com").parse().unwrap()).collect();
    let asked = join_all(emails.iter().map(|email| store.ask(email, now()))).await;
    assert!(asked.iter().all(Result::is_ok), "{asked:?}");
    // Each commit adds a page of 4 KiB at least.
    assert!(log() - before < 20 << 12);
    let scan = LostScan { now: now(), limit: 1_000, domain: "shop.example".to_owned() };
    assert_eq!(store.answer_lost(scan).await.unwrap(), 100);
    store.close().await;
}

#[tokio::test]
async fn every_way_opening_can_fail_has_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = "this is no database, but a text of more than a hundred bytes. ".repeat(20);
    std::fs::write(path("text.db"), text).unwrap();
    let _open = SqliteStore::open(path("used.db")).await.unwrap();
    SqliteStore::open(path("newer.db")).await.unwrap().close().await;
    add_newer_migration(&path("newer.db")).await;
    for (name, words) in [
        ("none/delivery.db", "does not exist"),
        ("text.db", "not a SQLite database"),
        ("used.db", "in use by another process"),
        ("used.db", "PostgreSQL"),
        ("newer.db", "newer version"),
        ("newer.db", "9999"),
    ] {
        let error = SqliteStore::open(path(name)).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

async fn add_newer_migration(path: &Path) {
    let mut connection = session(path).await;
    sqlx::query("INSERT INTO _delivery_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'later', 1, x'00', 0)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date() {
    let (folder, store) = opened().await;
    let id = store.issue(NewSale::new(key(1, -1), Vec::new())).await.unwrap().into_key().id();
    store.close().await;
    let mut connection = session(&folder.path().join("delivery.db")).await;
    sqlx::raw_sql(FIRST_VERSION).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let store = open(&folder).await;
    assert!(store.find(id).await.unwrap().is_some());
    let (platform, name) = ("stripe".parse().unwrap(), "plink_1".parse().unwrap());
    assert!(!store.office().unwrap().is_dismissed(&platform, &name).await.unwrap());
}

#[tokio::test]
async fn the_tables_are_prefixed_and_hold_no_key() {
    let (folder, store) = opened().await;
    store.add_product(facts("x"), by_admin()).await.unwrap();
    store.close().await;
    let mut connection = session(&folder.path().join("delivery.db")).await;
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    assert!(tables.len() > 5);
    assert!(tables.iter().all(|table| table.starts_with("delivery_") || table == "_delivery_migrations"), "{tables:?}");
}

/// As a backup does, or a program that copies the write-ahead log.
#[tokio::test]
async fn whoever_reads_the_file_delays_no_customer_while_a_person_is_erased() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder).await);
    let id = store.issue(NewSale::new(key(1, -1), Vec::new())).await.unwrap().into_key().id();
    let mut reader = session(&folder.path().join("delivery.db")).await;
    sqlx::raw_sql("BEGIN; SELECT * FROM delivery_key").execute(&mut reader).await.unwrap();
    let erase = || {
        let erasing = store.clone();
        let by = Edit { at: now(), by: "alice".parse().unwrap(), detail: None };
        let (email, pseudonym) = ("a@example.com".parse().unwrap(), "erased-1@erased.invalid".parse().unwrap());
        async move { erasing.office().unwrap().erase(&email, &pseudonym, by).await }
    };
    let erased = tokio::spawn(erase());
    let (mut uses, mut slowest) = (0, Duration::ZERO);
    while !erased.is_finished() {
        #[expect(clippy::disallowed_methods, reason = "how long a customer waits, in real time")]
        let since = std::time::Instant::now();
        used(&*store, id, uses).await;
        slowest = slowest.max(since.elapsed());
        uses += 1;
        tokio::task::yield_now().await;
    }
    let error = erased.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("is forgotten, but another program reads the file"), "{error}");
    // Erasing tries for three seconds. If a try waited for the reader, it would do so for five seconds.
    assert!(uses >= 10 && slowest < Duration::from_secs(4), "{uses} uses, the slowest took {slowest:?}");
    assert_eq!(store.find(id).await.unwrap().unwrap().email().as_str(), "erased-1@erased.invalid", "that much is done");
    // It can be asked for again: once nobody reads, nothing is left.
    reader.close().await.unwrap();
    erase().await.unwrap();
    let log = std::fs::metadata(folder.path().join("delivery.db-wal")).unwrap();
    assert_eq!(log.len(), 0);
    store.close().await;
}
