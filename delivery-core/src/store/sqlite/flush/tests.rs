//! Tests that counts are right while they are flushed and after a flush was interrupted.

use chrono::DateTime;
use proptest::prelude::*;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};

use super::super::cold;
use super::super::handler::tests::start;
use super::super::load::keys;
use super::*;
use crate::key::{Change, Key, KeyId, NewKey, SecretVersion};
use crate::ledger::operation::{Answer, ChangeKey, Operation};
use crate::product::ProductId;
use crate::store::Attempt;
use crate::store::batch::BatchHandler;
use crate::store::sql::history::prune_part;
use crate::store::sql::{Done, Work};
use crate::terms::{Terms, Validity};

const KEYS: u8 = 6;

#[derive(Debug, Clone)]
enum Step {
    /// Uses these keys in one batch, and then calls `maintain`, as the writer does between two batches.
    Use(Vec<u8>),
    Chunk,
    All,
    /// Prunes the use records: flushes their counts, then deletes the records. Between the two steps, commits one batch
    /// that uses these keys. The records of that batch must survive.
    Prune(Vec<u8>),
    /// The disk is full during a flush.
    Full,
    /// The connection is lost; whether the last batch was committed is unknown.
    Lost,
    /// The process ends without flushing.
    Crash,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => proptest::collection::vec(0..KEYS, 1..12).prop_map(Step::Use),
        4 => Just(Step::Chunk),
        1 => Just(Step::All),
        1 => proptest::collection::vec(0..KEYS, 1..4).prop_map(Step::Prune),
        1 => Just(Step::Full),
        1 => Just(Step::Lost),
        2 => Just(Step::Crash),
        1 => Just(Step::Close),
    ]
}

fn id(key: u8) -> KeyId {
    KeyId::from_bytes([key; 16])
}

async fn issue_all(writer: &mut Writer) {
    for key in 0..KEYS {
        let terms = Terms { validity: Validity::Never, ..Terms::default() };
        let identity = (id(key), SecretVersion::from_stored(1));
        let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
        let key = NewKey::on_terms(identity, product, email, terms, DateTime::UNIX_EPOCH);
        let issue = Work::Operation(Operation::Issue(Box::new(crate::ledger::NewSale::new(key, Vec::new()))));
        writer.commit(&[issue], Attempt::Optimistic, false).await.unwrap();
    }
}

/// Uses keys in one batch, and returns the keys from the writer's answers.
async fn spend(writer: &mut Writer, keys: &[u8]) -> Vec<Key> {
    let (product, at) = (ProductId::new(1).unwrap(), DateTime::UNIX_EPOCH);
    let change = Change::use_of(product, at);
    let spend = |key: &u8| ChangeKey { key: id(*key), change: change.clone(), messages: Vec::new() };
    let work: Vec<_> = keys.iter().map(|key| Work::Operation(Operation::Change(spend(key)))).collect();
    let answers = writer.commit(&work, Attempt::Optimistic, false).await.unwrap();
    let used = answers.into_iter().map(|answer| match answer.unwrap().unwrap() {
        Done::Answer(Answer::Changed(Some(Ok(key)))) => key,
        _ => panic!("every key may be used"),
    });
    used.collect()
}

/// Returns every key's count from its row and the pending counts, and checks that the cache agrees.
async fn counts(writer: &mut Writer) -> Vec<u64> {
    let ids: Vec<KeyId> = (0..KEYS).map(id).collect();
    let mut found = keys(&mut writer.connection, &writer.cache, &ids).await.unwrap();
    found.sort_by_key(|row| row.key.id());
    for row in &found {
        if let Some(cached) = writer.cache.keys.get(&row.key.id()) {
            assert_eq!((cached.key.used(), cached.last_use), (row.key.used(), row.last_use));
        }
    }
    found.iter().map(|row| row.key.used()).collect()
}

async fn run(steps: Vec<Step>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let mut writer = start(&path).await;
    issue_all(&mut writer).await;
    let mut expected = vec![0; usize::from(KEYS)];
    for step in steps {
        match step {
            Step::Use(keys) => {
                spend(&mut writer, &keys).await;
                for key in keys {
                    expected[usize::from(key)] += 1;
                }
                if !writer.is_lost {
                    maintain(&mut writer, 10).await.unwrap();
                }
            }
            Step::Chunk => {
                writer.begin_pass();
                chunk(&mut writer, 2).await.unwrap();
            }
            Step::All => all(&mut writer).await.unwrap(),
            Step::Prune(keys) => {
                let before = DateTime::from_timestamp(1, 0).unwrap();
                let until = prunable(&mut writer, before).await.unwrap();
                while !drain(&mut writer, until).await.unwrap() {}
                spend(&mut writer, &keys).await;
                for key in &keys {
                    expected[usize::from(*key)] += 1;
                }
                let mut next = Some(0);
                while let Some(from) = next {
                    let part =
                        cold::write(&mut writer, move |session| Box::pin(prune_part(session, (before, until), from)));
                    (_, next) = part.await.unwrap();
                }
                let left = "SELECT count(*) FROM delivery_use";
                let left: i64 = sqlx::query_scalar(left).fetch_one(&mut writer.connection).await.unwrap();
                assert_eq!(usize::try_from(left).unwrap(), keys.len(), "what was made before the prune is gone");
            }
            Step::Full => {
                let pages: i64 =
                    sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut writer.connection).await.unwrap();
                for pages in [pages, 1 << 30] {
                    let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
                    writer.connection.execute(limit).await.unwrap();
                    // The flush fails if it needs another page. The counts are right whether it fails or not.
                    let _ = all(&mut writer).await;
                }
            }
            Step::Lost => writer.is_lost = true,
            Step::Crash => {
                writer.connection.close().await.unwrap();
                writer = start(&path).await;
            }
            Step::Close => {
                writer.finish().await;
                writer = start(&path).await;
            }
        }
        assert_eq!(counts(&mut writer).await, expected);
    }
    all(&mut writer).await.unwrap();
    let stored: Vec<u64> = sqlx::query_scalar("SELECT used FROM delivery_counted_key ORDER BY id")
        .fetch_all(&mut writer.connection)
        .await
        .unwrap();
    assert_eq!(stored, expected, "as the rows alone tell");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_count_changes_by_flushing_crashing_and_starting(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_counts_rise_and_never_fall_while_they_are_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let mut writer = start(&path).await;
    issue_all(&mut writer).await;
    let cache = writer.cache.clone();
    let (end, mut ended) = tokio::sync::watch::channel(false);
    let (count, counted) = tokio::sync::watch::channel(0);
    let mut reader = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let reading = tokio::spawn(async move {
        let ids: Vec<KeyId> = (0..KEYS).map(id).collect();
        let (mut last, mut reads) = (vec![0; ids.len()], 0);
        while !*ended.borrow_and_update() {
            let mut found = keys(&mut reader, &cache, &ids).await.unwrap();
            found.sort_by_key(|row| row.key.id());
            let counts: Vec<u64> = found.iter().map(|row| row.key.used()).collect();
            assert!(counts.iter().zip(&last).all(|(now, before)| now >= before), "{last:?} then {counts:?}");
            (last, reads) = (counts, reads + 1);
            count.send_replace(reads);
        }
    });
    let (mut passes, mut round) = (0, 0);
    // Runs until the reader has read more than 100 times, and more than 100 rounds have ended without a pass under way.
    while (passes <= 100 || *counted.borrow() <= 100) && !reading.is_finished() {
        round += 1;
        let answers = spend(&mut writer, &(0..KEYS).collect::<Vec<_>>()).await;
        assert!(answers.iter().all(|key| key.used() == round));
        maintain(&mut writer, 10).await.unwrap();
        if writer.pass.until.is_some() {
            chunk(&mut writer, 4).await.unwrap();
        }
        passes += u32::from(writer.pass.until.is_none());
    }
    end.send(true).unwrap();
    reading.await.unwrap();
}

#[tokio::test]
async fn counts_are_flushed_as_fast_as_they_come_however_many_come_at_once() {
    const THRESHOLD: usize = 16 * 1024;
    for sizes in [[1024, 1024], [400, 800], [511, 1024], [1, 1023]] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = start(&folder.path().join("x.db")).await;
        let mut watermark = 0;
        for size in sizes.repeat(120) {
            // Each use is of a different key, which makes the most work for a flush.
            let first = writer.newest + 1;
            writer.newest += i64::try_from(size).unwrap();
            let counts = (first..=writer.newest).map(|number| (number, Count { used: 1, last_use: number }));
            writer.cache.pending.extend(counts);
            writer.pass.pace(size);
            let (was_flushing, before) = (writer.pass.until, writer.pass.counts.len());
            maintain(&mut writer, THRESHOLD).await.unwrap();
            let after = writer.pass.counts.len();
            let chunk = if was_flushing.is_some() { before - after } else { 0 };
            assert!(chunk <= 4 * CHUNK, "{chunk} at once, while commits wait, with batches of {sizes:?}");
            if let (Some(until), None) = (was_flushing, writer.pass.until) {
                watermark = until;
            }
            let behind = writer.newest - watermark;
            assert!(behind <= 3 * i64::try_from(THRESHOLD).unwrap(), "{behind} with batches of {sizes:?}");
        }
    }
}
