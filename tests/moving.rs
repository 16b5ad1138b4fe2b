//! A store moves from its SQLite file into PostgreSQL: everything arrives, from wherever it was interrupted, and never can
//! both be sold from.

#[path = "private/postgres.rs"]
mod postgres_server;
mod private;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::key::{Change, Key, KeyId, Keyring, NewKey, RingVersion};
use delivery_core::order::{OrderRef, Source};
use delivery_core::post::{Category, NewPost};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{
    Catalog, Issue, KeyQuery, Ledger, MessageId, Moved, Outcome, Page, PostQuery, PostgresError, PostgresStore,
    Progress, SqliteError, SqliteStore, StoreError, Transfer, TransferError,
};
use delivery_core::terms::{Terms, UseLimit, Validity};
use delivery_core::testing::ManualClock;
use futures_util::future::join_all;
use postgres_server::{postgres, unique};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tempfile::TempDir;

/// More than two chunks of keys and of uses, so that there are borders to fall at.
const KEYS: u128 = 20_050;
const USES: i64 = 41_000;

/// A file to move from and a schema to move into.
struct Ground {
    folder: TempDir,
    url: String,
    schema: String,
}

/// None where there is no PostgreSQL.
fn ground() -> Option<Ground> {
    Some(Ground { folder: tempfile::tempdir().unwrap(), url: postgres()?.url(), schema: unique() })
}

impl Ground {
    fn file(&self) -> PathBuf {
        self.folder.path().join("delivery.db")
    }

    async fn source(&self) -> Result<SqliteStore, SqliteError> {
        SqliteStore::open(self.file()).await
    }

    async fn target(&self) -> Result<PostgresStore, PostgresError> {
        PostgresStore::connect_to_schema(&self.url, &self.schema).await
    }

    async fn open(&self) -> Result<Transfer, TransferError> {
        Transfer::open_to_schema(self.file(), &self.url, &self.schema).await
    }

    /// Moves to the end.
    async fn run(&self) -> Result<Vec<Moved>, TransferError> {
        self.opened().await?.run(&clock(), |_| {}).await
    }

    /// Opens once the session of an interrupted move is gone.
    async fn opened(&self) -> Result<Transfer, TransferError> {
        loop {
            match self.open().await {
                Err(TransferError::InUse) => {}
                opened => return opened,
            }
        }
    }

    /// Moves until it was told of progress so often; whether that was the end.
    async fn run_until(&self, reports: usize) -> bool {
        let enough = tokio::sync::Notify::new();
        let mut told = 0;
        let transfer = self.opened().await.unwrap();
        let clock = clock();
        let moving = transfer.run(&clock, |_| {
            told += 1;
            if told == reports {
                enough.notify_one();
            }
        });
        tokio::select! {
            biased;
            () = enough.notified() => false,
            moved = moving => moved.is_ok(),
        }
    }

    async fn execute(&self, sql: &str) {
        let mut session = PgConnection::connect(&self.url).await.unwrap();
        session.execute(AssertSqlSafe(format!("SET search_path = {}; {sql}", self.schema))).await.unwrap();
    }
}

fn clock() -> ManualClock {
    ManualClock::at(now())
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap()
}

fn keyring(secret: &str) -> Keyring {
    secret.parse().unwrap()
}

fn id(index: u128) -> KeyId {
    // Not in the order of their numbers.
    KeyId::from_bytes((index.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).to_be_bytes())
}

fn product(id: i64) -> ProductId {
    ProductId::new(id).unwrap()
}

fn order(index: u128) -> NewKey {
    let uses = if index.is_multiple_of(3) { -1 } else { 1_000 };
    let terms = Terms { validity: Validity::from_days(30).unwrap(), limit: UseLimit::from_count(uses).unwrap() };
    let email = format!("buyer{}@exämple.com", index % 1_000).parse().unwrap();
    let key = NewKey::on_terms((id(index), RingVersion::from_stored(513)), product(1), email, terms, now());
    match index % 7 {
        0 => key,
        _ => key.bought_with(OrderRef { source: Source::webhook(), id: format!("№ {index}").parse().unwrap() }),
    }
}

fn letter(index: u128) -> Option<MessageId> {
    (index % 2 == 1).then(|| MessageId::new(format!("letter-{index}@example.com")).unwrap())
}

/// Sells a good deal, in every state that there is.
async fn fill(store: &SqliteStore) {
    store.enroll(&keyring("a secret that signs keys").fingerprints()).await.unwrap();
    for index in 0..40 {
        let named = NewProduct::new(format!("Book {index}")).unwrap().content("# Ünïcode\n".repeat(index + 1)).unwrap();
        store.add_product(named.price("9.99".parse().unwrap())).await.unwrap();
        let post = NewPost::new("News", Category::new(["a", "b"][index % 2]).unwrap(), now()).unwrap();
        store.add_post(post.content("Text").unwrap()).await.unwrap();
    }
    // As many at once as a ledger lets wait.
    let change = Change::Use { product: product(1), at: now() };
    for some in (0..KEYS).collect::<Vec<_>>().chunks(10_000) {
        let issued = join_all(some.iter().map(|index| store.issue(order(*index), letter(*index)))).await;
        assert!(issued.iter().all(|issue| matches!(issue, Ok(Issue::New(_)))));
    }
    for some in (0..USES).collect::<Vec<_>>().chunks(10_000) {
        let keys = some.iter().map(|index| id(u128::from(index.unsigned_abs()) % 999));
        let used = join_all(keys.map(|key| store.change(key, change))).await;
        assert!(used.iter().all(|used| matches!(used, Ok(Some(Ok(_))))));
    }
    for index in 0..50 {
        store.change(id(index), Change::Revoke { at: now() }).await.unwrap();
    }
    let lease = now() + TimeDelta::minutes(5);
    for (index, letter) in store.claim_letters(now(), lease, 400).await.unwrap().into_iter().enumerate() {
        let (at, due, reason) = (now(), lease, "the mail server said no".to_owned());
        let outcome = match index % 4 {
            0 => Outcome::Sent { at },
            1 => Outcome::Retry { due, reason },
            2 => Outcome::Park { at, reason },
            // Leased when the server ended.
            _ => continue,
        };
        store.settle_letter(letter.receipt, outcome).await.unwrap();
    }
}

/// All that a store tells.
async fn picture(store: &(impl Ledger + Catalog)) -> Vec<String> {
    fn show(told: impl Debug) -> String {
        format!("{told:?}")
    }
    let mut told = vec![show(store.products().await.unwrap()), show(store.parked_letters(10_000).await.unwrap())];
    for number in 1..=45 {
        told.push(show(store.product(product(number)).await.unwrap()));
    }
    for category in [None, Some(Category::new("b").unwrap())] {
        told.push(show(store.posts(&PostQuery { category, until: now(), limit: 100 }).await.unwrap()));
    }
    let mut query = KeyQuery { limit: 1_000, ..KeyQuery::default() };
    loop {
        let Page { items, next } = store.search(&query).await.unwrap();
        told.extend(items.iter().map(|key| show((key, key.revoked_at()))));
        query.before = next;
        if next.is_none() {
            break;
        }
    }
    for index in 0..100 {
        told.push(show(store.history(id(index), None, 1_000).await.unwrap().items));
    }
    told
}

#[track_caller]
fn assert_same(one: &[String], other: &[String]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other);
    }
}

async fn used(store: &impl Ledger, index: u128) -> Key {
    let change = Change::Use { product: product(1), at: now() };
    store.change(id(index), change).await.unwrap().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_sold_arrives_and_selling_goes_on() {
    let Some(ground) = ground() else { return };
    let source = ground.source().await.unwrap();
    fill(&source).await;
    let before = picture(&source).await;
    source.close().await;
    let moved = ground.run().await.unwrap();
    let counts: Vec<_> = moved.iter().map(|moved| (moved.what, moved.rows)).collect();
    let keys = u64::try_from(KEYS).unwrap();
    let uses = USES.unsigned_abs();
    assert_eq!(counts, [("products", 40), ("posts", 40), ("keys", keys), ("uses", uses), ("letters", keys / 2)]);

    let target = ground.target().await.unwrap();
    assert_same(&picture(&target).await, &before);
    let foreign = target.enroll(&keyring("another secret that signs").fingerprints()).await;
    assert!(matches!(foreign, Err(StoreError::ForeignSecret)));
    target.enroll(&keyring("a secret that signs keys").fingerprints()).await.unwrap();
    // An order that was served is served; a key counts on; what is new gets numbers of its own.
    let replay = NewKey { id: id(999_999), ..order(1) };
    let Issue::Existing(key) = target.issue(replay, letter(1)).await.unwrap() else { panic!("a second key") };
    assert_eq!(key.id(), id(1));
    let was = target.find(id(100)).await.unwrap().unwrap().used();
    let history = target.history(id(100), None, 1_000).await.unwrap().items.len();
    assert_eq!(used(&target, 100).await.used(), was + 1);
    assert_eq!(target.history(id(100), None, 1_000).await.unwrap().items.len(), history + 1);
    let Issue::New(_) = target.issue(order(KEYS), letter(1)).await.unwrap() else { panic!("no new key") };
    let new = target.add_product(NewProduct::new("New").unwrap().content("x").unwrap()).await.unwrap();
    assert_eq!(new.id(), product(41));
    // Those that were leased are due; those that were sent are not.
    let due = target.claim_letters(now(), now() + TimeDelta::minutes(5), 100_000).await.unwrap();
    let waiting = usize::try_from(KEYS / 2).unwrap() - 300 + 1;
    assert_eq!(due.len(), waiting);
    target.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_interrupted_anywhere_goes_on_and_catches_up() {
    let Some(ground) = ground() else { return };
    let source = ground.source().await.unwrap();
    fill(&source).await;
    source.close().await;
    for (round, reports) in [1, 3, 4, 6, 7, 9, 12, 14, 20].into_iter().enumerate() {
        assert!(!ground.run_until(reports).await, "{reports}");
        assert!(matches!(ground.target().await, Err(PostgresError::Moving)));
        // The seller goes on for a while after all.
        let source = ground.source().await.unwrap();
        used(&source, 200).await;
        source.change(id(300 + round as u128), Change::Revoke { at: now() }).await.unwrap().unwrap().unwrap();
        source.issue(order(KEYS + round as u128), letter(1)).await.unwrap();
        source.prune_history(now() - TimeDelta::days(1)).await.unwrap();
        source.close().await;
    }
    let source = ground.source().await.unwrap();
    source.prune_history(now() + TimeDelta::days(1)).await.unwrap();
    let before = picture(&source).await;
    source.close().await;
    let moved = ground.run().await.unwrap();
    assert_eq!(moved[3].rows, 0);
    assert_same(&picture(&ground.target().await.unwrap()).await, &before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_differs_is_noticed_and_the_next_run_mends_it() {
    let Some(original) = ground() else { return };
    let source = original.source().await.unwrap();
    fill(&source).await;
    let before = picture(&source).await;
    source.close().await;
    for damage in [
        "UPDATE delivery_key SET used = used + 1 WHERE number = 15000",
        "DELETE FROM delivery_use WHERE number = 41000",
        "INSERT INTO delivery_letter (number, key, message_id, queued_at, due_at) VALUES (99999, 1, 'a@b', 0, 0)",
        "UPDATE delivery_product SET content = content || ' ' WHERE id = 40",
    ] {
        let ground = Arc::new(ground().unwrap());
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
        assert!(matches!(ground.target().await, Err(PostgresError::Moving)));
        ground.run().await.unwrap();
        assert_same(&picture(&ground.target().await.unwrap()).await, &before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_counts_every_row_of_every_kind_once_copied_and_once_compared() {
    let Some(ground) = ground() else { return };
    let source = ground.source().await.unwrap();
    fill(&source).await;
    source.close().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn at_most_one_of_the_two_can_be_sold_from() {
    let Some(ground) = ground() else { return };
    let source = ground.source().await.unwrap();
    fill(&source).await;
    // While a server has the file …
    assert!(matches!(ground.open().await, Err(TransferError::Source(SqliteError::InUse { .. }))));
    source.close().await;
    // … or has written to the schema, nothing moves.
    let target = ground.target().await.unwrap();
    target.enroll(&keyring("a secret that signs keys").fingerprints()).await.unwrap();
    assert!(matches!(ground.open().await, Err(TransferError::InUse)));
    target.close().await;
    // One that only reads so far is kept from writing.
    let reader = ground.target().await.unwrap();
    let transfer = ground.open().await.unwrap();
    assert!(matches!(ground.open().await, Err(TransferError::Source(SqliteError::InUse { .. }))));
    assert!(matches!(reader.issue(order(1), None).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(ground.target().await, Err(PostgresError::Moving)));
    assert!(matches!(ground.source().await, Err(SqliteError::InUse { .. })));
    transfer.run(&clock(), |_| {}).await.unwrap();
    // It goes on once the move is finished; the file opens no more.
    assert!(reader.issue(order(1), None).await.is_ok());
    reader.close().await;
    let error = ground.source().await.unwrap_err();
    assert!(error.to_string().contains("was moved to PostgreSQL at 2026-11-21T10:00:00Z"), "{error}");
    // Once more changes nothing, here or elsewhere.
    assert!(matches!(ground.run().await, Err(TransferError::Finished { at }) if at == now()));
    let elsewhere = Transfer::open_to_schema(ground.file(), &ground.url, &unique()).await;
    assert!(matches!(elsewhere, Err(TransferError::Finished { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let Some(ground) = ground() else { return };
    assert!(matches!(ground.open().await, Err(TransferError::NoSource { .. })));
    assert!(!ground.file().exists());
    let source = ground.source().await.unwrap();
    source.add_product(NewProduct::new("Book").unwrap().content("x").unwrap()).await.unwrap();
    source.close().await;
    for (url, refusal) in [
        ("mysql://x/y", "must be an address such as postgres://"),
        ("postgres://postgres@127.0.0.1:1/x", "cannot be connected to"),
    ] {
        let error = Transfer::open(ground.file(), url).await.unwrap_err();
        assert!(error.to_string().contains(refusal), "{error}");
    }
    // A schema with something of its own, or with another store that was moved, or is being moved.
    let target = ground.target().await.unwrap();
    target.add_product(NewProduct::new("Other").unwrap().content("x").unwrap()).await.unwrap();
    target.close().await;
    assert!(matches!(ground.open().await, Err(TransferError::Occupied)));
    assert_eq!(ground.target().await.unwrap().products().await.unwrap().len(), 1);
    let other = Ground { folder: tempfile::tempdir().unwrap(), schema: unique(), ..ground };
    let ground = Ground { folder: ground.folder, url: other.url.clone(), schema: other.schema.clone() };
    let source = other.source().await.unwrap();
    source.add_product(NewProduct::new("Other").unwrap().content("x").unwrap()).await.unwrap();
    source.close().await;
    assert!(!other.run_until(1).await);
    assert!(matches!(ground.open().await, Err(TransferError::Occupied | TransferError::InUse)));
    other.run().await.unwrap();
    assert!(matches!(ground.open().await, Err(TransferError::Occupied)));
    // Whatever was refused, the source is still there to sell from.
    assert_eq!(ground.source().await.unwrap().products().await.unwrap().len(), 1);
    assert!(Path::exists(&ground.file()));
}
