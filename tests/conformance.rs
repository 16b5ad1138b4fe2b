//! Every promise of the ports, over every implementation: one named test for each pair.

#[path = "private/postgres.rs"]
mod postgres_server;
mod private;
#[path = "private/redis.rs"]
mod redis_server;

use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};

use delivery_core::limit::{MemoryLimiter, RedisLimiter};
use delivery_core::store::{MemoryStore, PostgresStore, SqliteStore};
use delivery_testing::conformance::{CATALOG, LEDGER, RATE_LIMITER};
use libtest_mimic::{Arguments, Trial};
use postgres_server::{Postgres, postgres, unique};
use redis_server::redis;

fn main() {
    let mut trials = Vec::new();
    for case in LEDGER {
        trials.push(trial("memory", case.name(), || case.run(|| async { MemoryStore::new() })));
        trials.push(trial("sqlite", case.name(), || async {
            let folder = tempfile::tempdir().unwrap();
            case.run(|| sqlite(&folder)).await;
        }));
        trials
            .extend(postgres().map(|server| trial("postgres", case.name(), move || case.run(move || schema(server)))));
    }
    for case in CATALOG {
        trials.push(trial("memory", case.name(), || case.run(|| async { MemoryStore::new() })));
        trials.push(trial("sqlite", case.name(), || async {
            let folder = tempfile::tempdir().unwrap();
            case.run(|| sqlite(&folder)).await;
        }));
        trials
            .extend(postgres().map(|server| trial("postgres", case.name(), move || case.run(move || schema(server)))));
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

async fn sqlite(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(folder.path().join("delivery.db")).await.unwrap()
}

async fn schema(server: &'static Postgres) -> PostgresStore {
    PostgresStore::connect_to_schema(&server.url(), &unique()).await.unwrap()
}

fn trial<F: Future<Output = ()>>(port: &str, promise: &str, run: impl FnOnce() -> F + Send + 'static) -> Trial {
    Trial::test(format!("{port}::{promise}"), move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run());
        Ok(())
    })
}
