//! Histories: whatever happens in whatever order, the service answers as a naive model of it does, over every store.
//!
//! A failure shrinks to a shorter history that still fails, for two minutes at most, and is kept in `regressions.txt`, which is
//! made with the first one.
//! `PROPTEST_CASES=10000 cargo test --test histories` looks longer.

mod model;
#[path = "../private/postgres.rs"]
mod postgres_server;
#[path = "../private/mod.rs"]
mod private;
mod service;

use std::sync::Arc;

use delivery_core::store::MemoryStore;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

use crate::model::{Model, Step};
use crate::service::{Place, Service};

/// Steps of a history.
const STEPS: std::ops::Range<usize> = 1..60;

#[test]
fn the_service_is_its_model_in_memory() {
    histories(256, || Place::Memory(Arc::new(MemoryStore::new())));
}

#[test]
fn the_service_is_its_model_over_a_sqlite_file() {
    histories(64, || Place::Sqlite(tempfile::tempdir().unwrap()));
}

#[test]
fn the_service_is_its_model_over_postgres() {
    let Some(server) = postgres_server::postgres() else { return };
    histories(32, || Place::Postgres(server.url(), postgres_server::unique()));
}

/// Runs generated histories, each in a new place.
fn histories(cases: u32, place: impl Fn() -> Place) {
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    let kept = FileFailurePersistence::Direct("tests/histories/regressions.txt");
    let shrink = Config { max_shrink_iters: 20_000, max_shrink_time: 120_000, ..Config::default() };
    let config = Config { cases, failure_persistence: Some(Box::new(kept)), ..shrink };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = TestRunner::new(config).run(&Model::sequential_strategy(STEPS), |(model, steps, seen)| {
        runtime.block_on(history(place(), model, steps, || {
            if let Some(seen) = &seen {
                seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

async fn history(place: Place, mut model: Model, steps: Vec<Step>, seen: impl Fn()) {
    let mut service = Service::open(place).await;
    for step in steps {
        // Shrinking leaves out the steps that were not reached.
        seen();
        model = Model::apply(model, &step);
        service.apply(&step, &model).await;
    }
    service.close().await;
}
