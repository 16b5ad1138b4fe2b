//! Generated histories over a store that moves at each restart: from its file into PostgreSQL, and from there into a new file.

use std::sync::{Arc, Mutex};

use delivery_core::key::Fingerprint;
use delivery_core::store::{PostgresStore, SqliteStore};
use delivery_testing::histories::Step;
use delivery_testing::{Fixture, histories};
use support::postgres::{postgres, unique};
use tempfile::TempDir;

struct Moving(Mutex<TempDir>);

impl Moving {
    async fn moved(&self) -> TempDir {
        let from = self.0.lock().unwrap().path().to_owned();
        let to = tempfile::tempdir().unwrap();
        let (one, two, three) = (to.path().join("1"), to.path().join("2"), to.path().join("3"));
        let write = |path: &std::path::Path| std::fs::File::create(path).unwrap();
        let (url, schema) = (postgres().url(), unique());
        let schema = || PostgresStore::options().schema(&schema);
        let dumped = SqliteStore::dump(from.join("delivery.db"), write(&one), |_| {}).await.unwrap();
        // The service signs with a secret of its own; whichever that is, its fingerprint is in the dump.
        let secrets = fingerprints(&std::fs::read_to_string(&one).unwrap());
        assert_eq!(schema().load(&one, &url, &secrets, |_| {}).await.unwrap(), dumped);
        assert_eq!(schema().dump(&url, write(&two), |_| {}).await.unwrap(), dumped);
        let file = to.path().join("delivery.db");
        assert_eq!(SqliteStore::load(&two, &file, &secrets, |_| {}).await.unwrap(), dumped);
        assert_eq!(SqliteStore::dump(&file, write(&three), |_| {}).await.unwrap(), dumped);
        let [one, two, three] = [one, two, three].map(|dump| std::fs::read(dump).unwrap());
        assert!(one == two && two == three, "dumped and loaded, a store is dumped as the same bytes");
        to
    }
}

/// The fingerprints of a dump.
fn fingerprints(dump: &str) -> Vec<Fingerprint> {
    let rows = dump.lines().filter_map(|line| line.strip_prefix("{\"row\":\"keyring\",\"fingerprint\":\""));
    let bytes = rows.map(|row| data_encoding::HEXLOWER.decode(row.trim_end_matches("\"}").as_bytes()).unwrap());
    bytes.map(|bytes| Fingerprint::from_bytes(bytes.try_into().unwrap())).collect()
}

impl Fixture for Moving {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        let file = self.0.lock().unwrap().path().join("delivery.db");
        if file.exists() {
            let moved = self.moved().await;
            *self.0.lock().unwrap() = moved;
        }
        let file = self.0.lock().unwrap().path().join("delivery.db");
        Arc::new(SqliteStore::open(file).await.unwrap())
    }
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn the_service_is_its_model_although_its_store_moves_at_each_restart() {
    let cases = support::rounds_of("PROPTEST_CASES", 8, 12);
    histories::check(|| Moving(Mutex::new(tempfile::tempdir().unwrap())), cases);
}

/// The newest entry of the audit log need not have the latest time.
#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn numbers_go_on_after_a_clock_was_set_back() {
    let steps = vec![
        Step::Order { order: 0, product: 1, buyer: 0 },
        Step::Revoke { key: 0 },
        Step::Clock { milliseconds: -1 },
        Step::Restore { key: 0 },
        Step::Restart { crash: false },
        Step::Revoke { key: 0 },
    ];
    histories::play(Moving(Mutex::new(tempfile::tempdir().unwrap())), steps);
}
