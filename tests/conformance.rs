//! Every promise of the ports, over every implementation: one named test for each pair.

#[path = "stores/places.rs"]
mod places;

use std::future::Future;

use delivery_core::limit::{MemoryLimiter, RedisLimiter};
use delivery_core::store::PostgresStore;
use delivery_testing::MemoryStore;
use delivery_testing::conformance::{
    ALIASES, CATALOG, FILES, INBOX, LEDGER, PAGES, RATE_LIMITER, RECORDS, REOPENED, REQUESTS, SHARED,
};
use libtest_mimic::{Arguments, Completion, Trial};
use places::{in_a_folder, in_a_schema, postgresql, sqlite};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use support::pgbouncer::pgbouncer;
use support::postgres::{postgres, unique};
use support::programs;
use support::redis::redis;

/// PostgreSQL, in connections of the store's own or in the host's pool.
const POSTGRES: [(&str, bool); 2] = [("postgres", false), ("postgres_pool", true)];

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
                let store = || async { postgresql(&unique(), false).await };
                trials.push(trial("postgres", case.name(), ["postgres"], move || case.run(store)));
                // The host's pool, too: its connections lead to a pooler here.
                trials.push(trial("pgbouncer", case.name(), ["postgres", "pgbouncer"], || case.run(behind)));
            }
        )*};
    }
    over_every_store!(LEDGER, INBOX, REQUESTS, ALIASES, PAGES, CATALOG, FILES, RECORDS);
    for case in REOPENED {
        trials.push(trial("sqlite", case.name(), [], || case.run(in_a_folder())));
    }
    for case in REOPENED.iter().chain(SHARED) {
        for (port, pooled) in POSTGRES {
            trials.push(trial(port, case.name(), ["postgres"], move || case.run(in_a_schema(pooled))));
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
