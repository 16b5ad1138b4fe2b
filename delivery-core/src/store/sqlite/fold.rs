//! Folding: the counts of appended uses are added to those of their keys, many at a time.
//!
//! A use costs one appended row when it happens. When many wait, a sweep goes through their keys in the order of the
//! counts, which are so small that most of their pages serve many keys; each slice of it is a short transaction between
//! two batches, and moves the mark along: a crash in between changes no count.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::Executor;
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::unfolded::{Mark, Uses};
use super::view::View;
use super::write::{Scribe, json, rolled_back};
use crate::store::StoreError;
use crate::store::rows::Columns;

/// A sweep begins when so many uses wait: of ten million keys' counts, a page then serves four of them. A start after a
/// crash reads half as many again at most, in some tenth of a second.
pub(super) const AT: usize = 1 << 17;
/// Keys in a slice while commits wait: some milliseconds.
const SLICE: usize = 1024;
/// After so many uses the next slice is due: a sweep ends long before the next one should begin.
const PACE: usize = SLICE / 2;
/// Keys in a slice when nobody waits.
const ALL: usize = 16 * 1024;
/// Forget so many uses in one commit.
const PRUNE: i64 = 10_000;

/// At the start: the uses that are not folded.
pub(super) async fn recover(connection: &mut SqliteConnection, view: &View) -> Result<(), StoreError> {
    const MARK: &str = "SELECT number, until, through, \
        max(number, coalesce((SELECT max(number) FROM delivery_use), 0)) AS newest FROM delivery_fold";
    // In one text: a row for each would take ten times as long.
    const USES: &str = "SELECT json_group_array(json_array(fresh, key, uses, last)) AS uses FROM ( \
        SELECT u.number > f.until AS fresh, u.key, count(*) AS uses, max(u.number) AS last \
        FROM delivery_fold f JOIN delivery_use u ON u.number > f.number \
        WHERE u.number > f.until OR u.key > f.through GROUP BY 1, 2 ORDER BY 1, 2)";
    let row = sqlx::query(MARK).fetch_one(&mut *connection).await.map_err(store_error)?;
    let mark = Mark { number: row.integer("number")?, until: row.integer("until")?, through: row.integer("through")? };
    let newest = row.integer("newest")?;
    let row = sqlx::query(USES).fetch_one(connection).await.map_err(store_error)?;
    let uses: Vec<(u8, i64, u32, i64)> = serde_json::from_str(row.text("uses")?)
        .map_err(|error| StoreError::corrupt_because("uses that do not add up", error))?;
    let (mut sweep, mut fresh) = (Vec::new(), HashMap::new());
    for (is_fresh, key, count, last) in uses {
        match is_fresh {
            0 => sweep.push((key, Uses { count, last })),
            _ => drop(fresh.insert(key, Uses { count, last })),
        }
    }
    view.unfolded().restore(mark, newest, sweep, fresh);
    Ok(())
}

/// After a batch: begins a sweep when `at` uses wait, and folds its next slice when that is due.
pub(super) async fn keep_up(scribe: &mut Scribe, at: usize) -> Result<(), StoreError> {
    {
        let mut unfolded = scribe.view.unfolded();
        if !unfolded.sweeping() && unfolded.waiting() >= at {
            unfolded.begin();
        }
        if !unfolded.sweeping() || unfolded.unpaced() < PACE.min(at) {
            return Ok(());
        }
    }
    slice(scribe, SLICE).await
}

/// Folds everything.
pub(super) async fn all(scribe: &mut Scribe) -> Result<(), StoreError> {
    loop {
        {
            let mut unfolded = scribe.view.unfolded();
            match (unfolded.sweeping(), unfolded.waiting()) {
                (true, _) => {}
                (false, 0) => return Ok(()),
                (false, _) => unfolded.begin(),
            }
        }
        slice(scribe, ALL).await?;
    }
}

/// Folds the next keys of the sweep that is under way.
async fn slice(scribe: &mut Scribe, most: usize) -> Result<(), StoreError> {
    let (keys, mark) = scribe.view.unfolded().slice(most);
    let counts: Vec<(i64, u32, i64)> = keys.iter().map(|(key, uses)| (*key, uses.count, uses.last)).collect();
    let committed = commit(&mut scribe.connection, &json(&counts)?, mark).await;
    if committed.is_err() {
        scribe.lost = !rolled_back(&mut scribe.connection).await;
    }
    committed?;
    scribe.view.unfolded().folded(keys.len(), mark);
    Ok(())
}

async fn commit(connection: &mut SqliteConnection, counts: &str, mark: Mark) -> Result<(), StoreError> {
    // Without a WHERE, the parser would take ON CONFLICT for a join's ON.
    const COUNT: &str = "INSERT INTO delivery_count (key, used, last_use) \
        SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true \
        ON CONFLICT (key) DO UPDATE SET used = used + excluded.used, last_use = excluded.last_use";
    connection.execute("BEGIN IMMEDIATE").await.map_err(store_error)?;
    sqlx::query(COUNT).bind(counts).execute(&mut *connection).await.map_err(store_error)?;
    let update = sqlx::query("UPDATE delivery_fold SET number = ?, until = ?, through = ?");
    let update = update.bind(mark.number).bind(mark.until).bind(mark.through);
    update.execute(&mut *connection).await.map_err(store_error)?;
    connection.execute("COMMIT").await.map(drop).map_err(store_error)
}

/// Whether uses before `before` wait to be folded.
pub(super) async fn holds_back(connection: &mut SqliteConnection, before: DateTime<Utc>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM delivery_fold f JOIN delivery_use u ON u.number > f.number \
                       WHERE u.at < ?)";
    sqlx::query_scalar(SQL).bind(before.timestamp_millis()).fetch_one(connection).await.map_err(store_error)
}

/// Forgets the uses before `before` among a slice of numbers from `from` on: how many, and where the next slice begins.
///
/// Only what is folded: a use of the same batch is not, and must still be counted after a crash.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    before: DateTime<Utc>,
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    const SLICE: &str = "SELECT min(number) AS first, (SELECT number FROM delivery_fold) AS folded FROM delivery_use \
                         WHERE number >= ?";
    const DELETE: &str = "DELETE FROM delivery_use WHERE number BETWEEN ? AND ? AND at < ?";
    let slice = sqlx::query(SLICE).bind(from).fetch_one(&mut *connection).await.map_err(store_error)?;
    let (first, folded) = (slice.integer_or_null("first")?, slice.integer("folded")?);
    let Some(first) = first.filter(|first| *first <= folded) else { return Ok((0, None)) };
    let last = first.saturating_add(PRUNE - 1).min(folded);
    let delete = sqlx::query(DELETE).bind(first).bind(last).bind(before.timestamp_millis());
    let pruned = delete.execute(connection).await.map_err(store_error)?.rows_affected();
    Ok((pruned, Some(last + 1).filter(|_| last < folded)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use proptest::prelude::*;
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions, Connection};

    use super::super::find::load;
    use super::super::open::migrate;
    use super::*;
    use crate::key::{Change, KeyId, NewKey, RingVersion};
    use crate::product::ProductId;
    use crate::store::commit::Writer;
    use crate::store::operation::Operation;
    use crate::terms::{Terms, Validity};

    const KEYS: u8 = 6;

    #[derive(Debug, Clone)]
    enum Step {
        /// Uses of these keys in one batch, and the upkeep that follows.
        Use(Vec<u8>),
        Slice,
        All,
        /// The process ends without a word.
        Crash,
        Close,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => proptest::collection::vec(0..KEYS, 1..12).prop_map(Step::Use),
            4 => Just(Step::Slice),
            1 => Just(Step::All),
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
        let lock = Arc::new(tempfile::tempfile().unwrap());
        Scribe::start(connection, options, Arc::new(View::new()), lock).await.unwrap()
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
        let product = ProductId::new(1).unwrap();
        let at = DateTime::UNIX_EPOCH;
        for key in 0..KEYS {
            let terms = Terms { validity: Validity::Never, ..Terms::default() };
            let identity = (id(key), RingVersion::from_stored(1));
            let key = NewKey::on_terms(identity, product, "a@example.com".parse().unwrap(), terms, at);
            scribe.commit(&[Operation::Issue(Arc::new(key), None)]).await.unwrap();
        }
        let mut expected = vec![0; usize::from(KEYS)];
        for step in steps {
            match step {
                Step::Use(keys) => {
                    let uses: Vec<_> =
                        keys.iter().map(|key| Operation::Change(id(*key), Change::Use { product, at })).collect();
                    scribe.commit(&uses).await.unwrap();
                    for key in keys {
                        expected[usize::from(key)] += 1;
                    }
                    keep_up(&mut scribe, 10).await.unwrap();
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

    #[tokio::test]
    async fn a_file_from_before_counts_stood_apart_keeps_every_count() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("old.db")).create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        for sql in [
            include_str!("migrations/0001_delivery.sql"),
            include_str!("migrations/0002_move.sql"),
            include_str!("migrations/0003_standing.sql"),
            // Three uses, the first two of them folded; the third is the last that the key has.
            "INSERT INTO delivery_key (number, id, ring, product, email, issued_at, expires_at, max_uses, used, last_use) \
             VALUES (1, unhex('01010101010101010101010101010101'), 1, 1, 'a@example.com', 0, 9, 3, 2, 2), \
                    (2, unhex('02020202020202020202020202020202'), 1, 1, 'a@example.com', 0, 9, 3, 0, NULL); \
             INSERT INTO delivery_use VALUES (1, 1, 5, NULL), (2, 1, 6, 1), (3, 1, 7, 2); \
             UPDATE delivery_fold SET number = 2",
            include_str!("migrations/0004_count.sql"),
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
}
