//! Counts while they are folded, and while that is interrupted.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};

use super::super::find::load;
use super::super::open::migrate;
use super::*;
use crate::key::{Change, KeyId, NewKey, RingVersion};
use crate::product::ProductId;
use crate::store::commit::Writer;
use crate::store::operation::{Answer, Operation};
use crate::store::sqlite::lock::Lock;
use crate::terms::{Terms, Validity};

const KEYS: u8 = 6;

#[derive(Debug, Clone)]
enum Step {
    /// Uses of these keys in one batch, and the upkeep that follows.
    Use(Vec<u8>),
    Slice,
    All,
    /// Uses are forgotten that are folded by then.
    Prune,
    /// The process ends, and the file is folded to be moved.
    Settle,
    /// The disk is full while a slice is folded.
    Full,
    /// The connection is lost: nobody knows what was committed.
    Lost,
    /// The process ends without a word.
    Crash,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => proptest::collection::vec(0..KEYS, 1..12).prop_map(Step::Use),
        4 => Just(Step::Slice),
        1 => Just(Step::All),
        1 => Just(Step::Prune),
        1 => Just(Step::Settle),
        1 => Just(Step::Full),
        1 => Just(Step::Lost),
        2 => Just(Step::Crash),
        1 => Just(Step::Close),
    ]
}

fn id(key: u8) -> KeyId {
    KeyId::from_bytes([key; 16])
}

async fn start(path: &Path) -> Scribe {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    // Nothing here cuts the power.
    let options = options.synchronous(sqlx::sqlite::SqliteSynchronous::Off);
    let mut connection = options.connect().await.unwrap();
    migrate(&mut connection).await.unwrap();
    let lock = Arc::new(Lock::take(tempfile::NamedTempFile::new().unwrap().path()).unwrap());
    Scribe::start(connection, options, Arc::new(View::new()), lock).await.unwrap()
}

async fn issue_all(scribe: &mut Scribe) {
    for key in 0..KEYS {
        let terms = Terms { validity: Validity::Never, ..Terms::default() };
        let identity = (id(key), RingVersion::from_stored(1));
        let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
        let key = NewKey::on_terms(identity, product, email, terms, DateTime::UNIX_EPOCH);
        scribe.commit(&[Operation::Issue(Arc::new(key), None)], false).await.unwrap();
    }
}

fn spend(key: u8) -> Operation {
    let product = ProductId::new(1).unwrap();
    Operation::Change(id(key), Change::Use { product, at: DateTime::UNIX_EPOCH })
}

/// Every key's count as its row and the uses that are not folded tell it, and as view has it.
async fn counts(scribe: &mut Scribe) -> Vec<u64> {
    let ids: Vec<KeyId> = (0..KEYS).map(id).collect();
    let found = load(&mut scribe.connection, &scribe.view, &ids).await.unwrap();
    for id in &ids {
        if let Some(entry) = scribe.view.keys.get(id) {
            assert_eq!((entry.key.used(), entry.last_use), (found[id].key.used(), found[id].last_use));
        }
    }
    ids.iter().map(|id| found[id].key.used()).collect()
}

async fn run(steps: Vec<Step>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let mut scribe = start(&path).await;
    issue_all(&mut scribe).await;
    let mut expected = vec![0; usize::from(KEYS)];
    for step in steps {
        match step {
            Step::Use(keys) => {
                let uses: Vec<_> = keys.iter().copied().map(spend).collect();
                scribe.commit(&uses, false).await.unwrap();
                for key in keys {
                    expected[usize::from(key)] += 1;
                }
                if !scribe.lost {
                    keep_up(&mut scribe, 10).await.unwrap();
                }
            }
            Step::Slice => {
                {
                    let mut unfolded = scribe.view.unfolded();
                    if !unfolded.sweeping() {
                        unfolded.begin();
                    }
                }
                slice(&mut scribe, 2).await.unwrap();
            }
            Step::All => all(&mut scribe).await.unwrap(),
            Step::Prune => {
                let before = DateTime::from_timestamp(1, 0).unwrap();
                let prune = [Operation::Prune { before, from: 0 }];
                while let [Some(Answer::Pruned(0, Some(0)))] = scribe.commit(&prune, false).await.unwrap()[..] {}
                let left = "SELECT count(*) FROM delivery_use";
                let left: i64 = sqlx::query_scalar(left).fetch_one(&mut scribe.connection).await.unwrap();
                assert_eq!(left, 0);
            }
            Step::Settle => {
                settle(&mut scribe.connection).await.unwrap();
                scribe.connection.close().await.unwrap();
                scribe = start(&path).await;
            }
            Step::Full => {
                let pages: i64 =
                    sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut scribe.connection).await.unwrap();
                for pages in [pages, 1 << 30] {
                    let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
                    scribe.connection.execute(limit).await.unwrap();
                    // Whether it needs another page or not, counts are right.
                    let _ = all(&mut scribe).await;
                }
            }
            Step::Lost => scribe.lost = true,
            Step::Crash => {
                scribe.connection.close().await.unwrap();
                scribe = start(&path).await;
            }
            Step::Close => {
                scribe.finish().await;
                scribe = start(&path).await;
            }
        }
        assert_eq!(counts(&mut scribe).await, expected);
    }
    all(&mut scribe).await.unwrap();
    let stored: Vec<u64> = sqlx::query_scalar("SELECT used FROM delivery_key ORDER BY id")
        .fetch_all(&mut scribe.connection)
        .await
        .unwrap();
    assert_eq!(stored, expected, "as the rows alone tell");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_count_changes_by_folding_crashing_and_starting(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_counts_rise_and_never_fall_while_they_are_folded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let mut scribe = start(&path).await;
    issue_all(&mut scribe).await;
    let view = scribe.view.clone();
    let (end, mut ended) = tokio::sync::watch::channel(false);
    let mut reader = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let reading = tokio::spawn(async move {
        let ids: Vec<KeyId> = (0..KEYS).map(id).collect();
        let (mut last, mut reads) = (vec![0; ids.len()], 0);
        while !*ended.borrow_and_update() {
            let found = load(&mut reader, &view, &ids).await.unwrap();
            let counts: Vec<u64> = ids.iter().map(|id| found[id].key.used()).collect();
            assert!(counts.iter().zip(&last).all(|(now, before)| now >= before), "{last:?} then {counts:?}");
            (last, reads) = (counts, reads + 1);
        }
        reads
    });
    for round in 0..600 {
        let all: Vec<_> = (0..KEYS).map(spend).collect();
        let answers = scribe.commit(&all, false).await.unwrap();
        let exact =
            |answer: &Option<Answer>| matches!(answer, Some(Answer::Changed(Some(Ok(key)))) if key.used() == round + 1);
        assert!(answers.iter().all(exact));
        keep_up(&mut scribe, 10).await.unwrap();
    }
    end.send(true).unwrap();
    assert!(reading.await.unwrap() > 10, "it read beside the writer");
    assert!(scribe.view.unfolded().sweeps() > 100);
}

#[tokio::test]
async fn uses_are_folded_as_fast_as_they_come_however_many_come_at_once() {
    const AT: usize = 16 * 1024;
    for sizes in [[1024, 1024], [400, 800], [511, 1024], [1, 1023]] {
        let folder = tempfile::tempdir().unwrap();
        let mut scribe = start(&folder.path().join("x.db")).await;
        let mut number = 0;
        for size in sizes.repeat(120) {
            for _ in 0..size {
                number += 1;
                // Each of a key of its own: the most there is to do.
                scribe.view.unfolded().add(number, number);
            }
            let state = |scribe: &Scribe| {
                let unfolded = scribe.view.unfolded();
                (unfolded.sweeps(), unfolded.left())
            };
            let (sweeps, before) = state(&scribe);
            keep_up(&mut scribe, AT).await.unwrap();
            let (now, after) = state(&scribe);
            let slice = if now == sweeps { before - after } else { AT.saturating_sub(after) };
            assert!(slice <= 4 * SLICE, "{slice} at once, while commits wait, with batches of {sizes:?}");
            let behind = number - scribe.view.unfolded().mark().number;
            assert!(behind <= 2 * i64::try_from(AT).unwrap(), "{behind} with batches of {sizes:?}");
        }
    }
}

#[tokio::test]
async fn a_file_from_before_counts_stood_apart_keeps_every_count() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("old.db")).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    for sql in [
        include_str!("../migrations/0001_delivery.sql"),
        include_str!("../migrations/0002_move.sql"),
        include_str!("../migrations/0003_standing.sql"),
        // Three uses, the first two of them folded; the third is the last that the key has.
        "INSERT INTO delivery_key (number, id, ring, product, email, issued_at, expires_at, max_uses, used, last_use) \
         VALUES (1, unhex('01010101010101010101010101010101'), 1, 1, 'a@example.com', 0, 9, 3, 2, 2), \
                (2, unhex('02020202020202020202020202020202'), 1, 1, 'a@example.com', 0, 9, 3, 0, NULL); \
         INSERT INTO delivery_use VALUES (1, 1, 5, NULL), (2, 1, 6, 1), (3, 1, 7, 2); \
         UPDATE delivery_fold SET number = 2",
        include_str!("../migrations/0004_count.sql"),
    ] {
        connection.execute(sql).await.unwrap();
    }
    let read = "SELECT used, last_use, exhausted FROM delivery_key ORDER BY number";
    let keys: Vec<(i64, Option<i64>, i64)> = sqlx::query_as(read).fetch_all(&mut connection).await.unwrap();
    assert_eq!(keys, [(3, Some(3), 1), (0, None, 0)]);
    let view = View::new();
    recover(&mut connection, &view).await.unwrap();
    let unfolded = view.unfolded();
    assert_eq!((unfolded.waiting(), unfolded.sweeping()), (0, false));
}
