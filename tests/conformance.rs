//! Every promise of the ports, over every implementation: one named test for each pair.

use std::future::Future;
use std::sync::Arc;

use delivery_core::limit::{MemoryLimiter, RedisLimiter};
use delivery_core::store::{MemoryStore, PostgresStore, SqliteStore};
use delivery_testing::Fixture;
use delivery_testing::conformance::{
    CATALOG, INBOX, LEDGER, RATE_LIMITER, RECORDS, REOPENED, REQUESTS, SHARED, VISITS,
};
use libtest_mimic::{Arguments, Completion, Trial};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use support::pgbouncer::pgbouncer;
use support::postgres::{Postgres, postgres, unique};
use support::programs;
use support::redis::redis;

fn main() {
    let mut trials = Vec::new();
    // Each case over each store that begins empty.
    macro_rules! over_every_store {
        ($($cases:expr),*) => {$(
            for case in $cases {
                trials.push(trial("memory", case.name(), [], || case.run(|| async { MemoryStore::new() })));
                trials.push(trial("sqlite", case.name(), [], || async {
                    let folder = tempfile::tempdir().unwrap();
                    case.run(|| sqlite(&folder)).await;
                }));
                trials.push(trial("postgres", case.name(), ["postgres"], || case.run(schema)));
                trials.push(trial("postgres_pool", case.name(), ["postgres"], || case.run(pooled)));
                trials.push(trial("pgbouncer", case.name(), ["postgres", "pgbouncer"], || case.run(behind)));
            }
        )*};
    }
    over_every_store!(LEDGER, INBOX, REQUESTS, VISITS, CATALOG, RECORDS);
    for case in REOPENED {
        trials.push(trial("sqlite", case.name(), [], || case.run(InAFolder(tempfile::tempdir().unwrap()))));
    }
    for case in REOPENED.iter().chain(SHARED) {
        for (port, pooled) in [("postgres", false), ("postgres_pool", true)] {
            let fixture = move || InASchema { server: postgres(), name: unique(), pooled };
            trials.push(trial(port, case.name(), ["postgres"], move || case.run(fixture())));
        }
    }
    for (case, pepper) in RATE_LIMITER.iter().zip(0..) {
        trials.push(trial("in_process", case.name(), [], || case.run(|clock| MemoryLimiter::new(clock))));
        // A pepper of its own keeps each case to itself.
        trials.push(trial("redis", case.name(), ["redis-server"], move || {
            case.run(move |clock| RedisLimiter::new(&redis().url(), [pepper; 32]).unwrap().on_clock(clock))
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

async fn schema() -> PostgresStore {
    PostgresStore::options().schema(unique()).connect(&postgres().url()).await.unwrap()
}

/// In the host's pool.
async fn pooled() -> PostgresStore {
    let pool = PgPoolOptions::new().max_connections(6).connect(&postgres().url()).await.unwrap();
    PostgresStore::options().schema(unique()).with_pool(pool).await.unwrap()
}

/// In the host's pool of connections to a pooler.
async fn behind() -> PostgresStore {
    let (server, schema) = (postgres(), unique());
    PostgresStore::options().schema(&schema).migrate(server.url().parse().unwrap()).await.unwrap();
    let options: PgConnectOptions = pgbouncer(server).url().parse().unwrap();
    let pool = PgPoolOptions::new().max_connections(6).connect_with(options.statement_cache_capacity(0)).await.unwrap();
    PostgresStore::options().schema(schema).without_migrating().with_pool(pool).await.unwrap()
}

/// A promise as a test, which is ignored where a program is missing that it needs.
fn trial<F: Future<Output = ()>, const N: usize>(
    port: &str,
    promise: &str,
    needs: [&'static str; N],
    run: impl FnOnce() -> F + Send + 'static,
) -> Trial {
    Trial::ignorable_test(format!("{port}::{promise}"), move || {
        if let Some(missing) = programs::missing(&needs) {
            return Ok(Completion::ignored_with(format!("needs {missing}")));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run());
        Ok(Completion::Completed)
    })
}
