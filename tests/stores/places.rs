//! Where the stores under test are. The target `conformance` has the same places.

use std::path::Path;
use std::sync::Arc;

use delivery_core::store::{PostgresStore, SqliteStore};
use delivery_testing::Fixture;
use sqlx::postgres::PgPoolOptions;
use support::postgres::{postgres, unique};
use tempfile::TempDir;

pub struct InAFolder(TempDir);

pub fn in_a_folder() -> InAFolder {
    InAFolder(tempfile::tempdir().unwrap())
}

impl Fixture for InAFolder {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(sqlite(&self.0).await)
    }

    fn crash(&mut self) {
        self.0 = crashed(&self.0);
    }
}

/// What a crash leaves behind: the files as they are now, nothing flushed, nothing closed.
pub fn crashed(folder: &TempDir) -> TempDir {
    let crashed = tempfile::tempdir().unwrap();
    for file in ["delivery.db", "delivery.db-wal"] {
        std::fs::copy(folder.path().join(file), crashed.path().join(file)).unwrap();
    }
    crashed
}

pub struct InASchema {
    name: String,
    pooled: bool,
}

pub fn in_a_schema(pooled: bool) -> InASchema {
    InASchema { name: unique(), pooled }
}

impl Fixture for InASchema {
    type Store = PostgresStore;

    async fn open(&self) -> Arc<PostgresStore> {
        Arc::new(postgresql(&self.name, self.pooled).await)
    }
}

pub async fn sqlite(folder: impl AsRef<Path>) -> SqliteStore {
    SqliteStore::open(folder.as_ref().join("delivery.db")).await.unwrap()
}

/// By itself, or in the host's pool.
pub async fn postgresql(schema: &str, pooled: bool) -> PostgresStore {
    let (options, url) = (PostgresStore::options().schema(schema), postgres().url());
    if pooled {
        let pool = PgPoolOptions::new().max_connections(6).connect(&url).await.unwrap();
        return options.with_pool(pool).await.unwrap();
    }
    options.connect(&url).await.unwrap()
}
