//! Every promise of the ports, over every implementation: one named test for each pair.

#[path = "private/pgbouncer.rs"]
mod pgbouncer_server;
#[path = "private/postgres.rs"]
mod postgres_server;
mod private;
#[path = "private/redis.rs"]
mod redis_server;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use delivery_core::limit::{MemoryLimiter, RedisLimiter};
use delivery_core::store::{MemoryStore, PostgresStore, SqliteStore};
use delivery_testing::Fixture;
use delivery_testing::conformance::{
    CATALOG, INBOX, LEDGER, RATE_LIMITER, RECORDS, REOPENED, REQUESTS, SHARED, VISITS,
};
use libtest_mimic::{Arguments, Trial};
use pgbouncer_server::{PgBouncer, pgbouncer};
use postgres_server::{Postgres, postgres, unique};
use redis_server::redis;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

fn main() {
    let mut trials = Vec::new();
    for case in LEDGER.iter().chain(INBOX).chain(REQUESTS).chain(VISITS) {
        trials.push(trial("memory", case.name(), || case.run(|| async { MemoryStore::new() })));
        trials.push(trial("sqlite", case.name(), || async {
            let folder = tempfile::tempdir().unwrap();
            case.run(|| sqlite(&folder)).await;
        }));
        if let Some(server) = postgres() {
            trials.push(trial("postgres", case.name(), move || case.run(move || schema(server))));
            trials.push(trial("postgres_pool", case.name(), move || case.run(move || pooled(server))));
            if let Some(pooler) = pgbouncer(server) {
                trials.push(trial("pgbouncer", case.name(), move || case.run(move || behind(server, pooler))));
            }
        }
    }
    for case in CATALOG {
        trials.push(trial("memory", case.name(), || case.run(|| async { MemoryStore::new() })));
        trials.push(trial("sqlite", case.name(), || async {
            let folder = tempfile::tempdir().unwrap();
            case.run(|| sqlite(&folder)).await;
        }));
        if let Some(server) = postgres() {
            trials.push(trial("postgres", case.name(), move || case.run(move || schema(server))));
            trials.push(trial("postgres_pool", case.name(), move || case.run(move || pooled(server))));
            if let Some(pooler) = pgbouncer(server) {
                trials.push(trial("pgbouncer", case.name(), move || case.run(move || behind(server, pooler))));
            }
        }
    }
    for case in RECORDS {
        trials.push(trial("memory", case.name(), || case.run(|| async { MemoryStore::new() })));
        trials.push(trial("sqlite", case.name(), || async {
            let folder = tempfile::tempdir().unwrap();
            case.run(|| sqlite(&folder)).await;
        }));
        if let Some(server) = postgres() {
            trials.push(trial("postgres", case.name(), move || case.run(move || schema(server))));
            trials.push(trial("postgres_pool", case.name(), move || case.run(move || pooled(server))));
            if let Some(pooler) = pgbouncer(server) {
                trials.push(trial("pgbouncer", case.name(), move || case.run(move || behind(server, pooler))));
            }
        }
    }
    for case in REOPENED {
        trials.push(trial("sqlite", case.name(), || case.run(InAFolder(tempfile::tempdir().unwrap()))));
        if let Some(server) = postgres() {
            trials.push(trial("postgres", case.name(), move || {
                case.run(InASchema { server, name: unique(), pooled: false })
            }));
            trials.push(trial("postgres_pool", case.name(), move || {
                case.run(InASchema { server, name: unique(), pooled: true })
            }));
        }
    }
    for case in SHARED {
        if let Some(server) = postgres() {
            trials.push(trial("postgres", case.name(), move || {
                case.run(InASchema { server, name: unique(), pooled: false })
            }));
            trials.push(trial("postgres_pool", case.name(), move || {
                case.run(InASchema { server, name: unique(), pooled: true })
            }));
        }
    }
    for case in RATE_LIMITER {
        trials.push(trial("in_process", case.name(), || case.run(|clock| MemoryLimiter::new(clock))));
        trials.extend(redis().map(|server| {
            // A pepper of its own keeps each case to itself.
            static CASES: AtomicU8 = AtomicU8::new(0);
            let pepper = [CASES.fetch_add(1, Ordering::Relaxed); 32];
            trial("redis", case.name(), move || {
                case.run(move |clock| RedisLimiter::new(&server.url(), pepper).unwrap().on_clock(clock))
            })
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

struct InAFolder(tempfile::TempDir);

impl Fixture for InAFolder {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(sqlite(&self.0).await)
    }
}

struct InASchema {
    server: &'static Postgres,
    name: String,
    pooled: bool,
}

impl Fixture for InASchema {
    type Store = PostgresStore;

    async fn open(&self) -> Arc<PostgresStore> {
        let options = PostgresStore::options().schema(&self.name);
        let store = if self.pooled {
            options.with_pool(sqlx::PgPool::connect(&self.server.url()).await.unwrap()).await
        } else {
            options.connect(&self.server.url()).await
        };
        Arc::new(store.unwrap())
    }
}

async fn sqlite(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(folder.path().join("delivery.db")).await.unwrap()
}

async fn schema(server: &'static Postgres) -> PostgresStore {
    PostgresStore::options().schema(unique()).connect(&server.url()).await.unwrap()
}

/// In the host's pool.
async fn pooled(server: &'static Postgres) -> PostgresStore {
    let pool = PgPoolOptions::new().max_connections(6).connect(&server.url()).await.unwrap();
    PostgresStore::options().schema(unique()).with_pool(pool).await.unwrap()
}

/// In the host's pool of connections to a pooler.
async fn behind(server: &'static Postgres, pooler: &'static PgBouncer) -> PostgresStore {
    let schema = unique();
    PostgresStore::options().schema(&schema).migrate(server.url().parse().unwrap()).await.unwrap();
    let options: PgConnectOptions = pooler.url().parse().unwrap();
    let pool = PgPoolOptions::new().max_connections(6).connect_with(options.statement_cache_capacity(0)).await.unwrap();
    PostgresStore::options().schema(schema).without_migrating().with_pool(pool).await.unwrap()
}

fn trial<F: Future<Output = ()>>(port: &str, promise: &str, run: impl FnOnce() -> F + Send + 'static) -> Trial {
    Trial::test(format!("{port}::{promise}"), move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run());
        Ok(())
    })
}
