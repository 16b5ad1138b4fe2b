//! Histories: whatever happens in whatever order, the service answers as a naive model of it does, over every store.
//!
//! A failure shrinks to a shorter history that still fails, for two minutes at most, and is kept in `regressions.txt`, which is
//! made with the first one.
//! `PROPTEST_CASES=10000 cargo test --test stores histories` looks longer.

use std::fs;
use std::sync::Arc;

use delivery_core::store::{CatalogEditor, Ledger, MemoryStore, PostgresStore, Posts, SqliteStore};
use delivery_testing::{Fixture, histories};
use proptest::test_runner::{Config, FileFailurePersistence};
use tempfile::TempDir;

/// Outlives a restart here as the others do.
struct InMemory(Arc<MemoryStore>);

impl Fixture for InMemory {
    type Store = MemoryStore;

    async fn open(&self) -> Arc<MemoryStore> {
        self.0.clone()
    }
}

struct InAFolder(TempDir);

impl Fixture for InAFolder {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(self.0.path().join("x.db")).await.unwrap())
    }

    /// What a crash leaves behind: the files as they are now, nothing closed.
    fn crash(&mut self) {
        let crashed = tempfile::tempdir().unwrap();
        for file in ["x.db", "x.db-wal"] {
            fs::copy(self.0.path().join(file), crashed.path().join(file)).unwrap();
        }
        self.0 = crashed;
    }
}

/// A server's address, and a schema.
struct InASchema(String, String);

impl Fixture for InASchema {
    type Store = PostgresStore;

    async fn open(&self) -> Arc<PostgresStore> {
        Arc::new(PostgresStore::options().schema(&self.1).connect(&self.0).await.unwrap())
    }
}

#[test]
fn the_service_is_its_model_in_memory() {
    check(256, || InMemory(Arc::default()));
}

/// As somebody proves a store that keeps keys and nothing else.
#[test]
fn the_service_is_its_model_over_a_ledger_beside_other_products() {
    histories::check_ledger(|| InMemory(Arc::default()), 32);
}

#[test]
fn the_service_is_its_model_over_a_sqlite_file() {
    check(64, || InAFolder(tempfile::tempdir().unwrap()));
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn the_service_is_its_model_over_postgres() {
    let server = support::postgres::postgres();
    check(32, || InASchema(server.url(), support::postgres::unique()));
}

fn check<F>(cases: u32, fixture: impl Fn() -> F)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    let kept = FileFailurePersistence::Direct("tests/stores/histories/regressions.txt");
    let config = Config { failure_persistence: Some(Box::new(kept)), ..histories::config(cases) };
    histories::check_with(fixture, config);
}
