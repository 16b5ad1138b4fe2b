//! Checks that the service on your store answers as a naive model does, for generated histories of calls and failures.
//!
//! [`check`] generates histories of up to 59 steps: orders, platform events, keys, validations, repeated fetches,
//! guessed keys, the seller's changes of keys and files, moving clocks, failing mail servers, restarts and crashes.
//! Steps that the store does not support are skipped. After every step, the service's answer must be the [`Model`]'s,
//! and every key, history of uses and e-mail must be as in the model. A failure shrinks to a shorter history that still
//! fails.
//!
//! ```
//! use std::sync::Arc;
//! use delivery_testing::MemoryStore;
//! use delivery_testing::{Fixture, histories};
//!
//! /// Outlives restarts, as a file does.
//! struct InMemory(Arc<MemoryStore>);
//!
//! impl Fixture for InMemory {
//!     type Store = MemoryStore;
//!
//!     async fn open(&self) -> Arc<MemoryStore> {
//!         self.0.clone()
//!     }
//! }
//!
//! histories::check(|| InMemory(Arc::default()), 8);
//! ```

mod compare;
mod desk;
mod message;
mod model;
mod post;
mod service;
mod shop;
mod step;

use std::sync::Arc;

use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

use crate::MemoryStore;
use delivery_core::delivery::Stores;
use delivery_core::key::Rule;
use delivery_core::store::{CatalogEditor, Ledger, Posts};

pub use self::message::Topic;
pub use self::model::{Key, Model};
use self::service::Service;
pub use self::step::{Answer, Limit, OrderReport, Step};
use crate::Fixture;

/// The number of steps of a history.
const STEPS: std::ops::Range<usize> = 1..60;

/// Checks `cases` histories, each on a new fixture. The store keeps keys, messages, products and posts; for a store
/// without products and posts, use [`check_ledger`].
///
/// Each run generates new histories. To keep a history that failed, copy its steps into a test that [`play`]s them.
///
/// # Panics
///
/// If the service deviates from the model. The message contains the shortest failing history that was found within two
/// minutes of shrinking.
pub fn check<F>(fixture: impl Fn() -> F, cases: u32)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    check_with(fixture, Config { failure_persistence: None, ..config(cases) });
}

/// Checks `cases` histories on a store that keeps only keys and messages. Products are kept in memory.
///
/// # Panics
///
/// As [`check`].
pub fn check_ledger<F>(fixture: impl Fn() -> F, cases: u32)
where
    F: Fixture<Store: Ledger + Sized>,
{
    let keeps = || -> Keeps<F::Store> {
        let products = Arc::new(MemoryStore::new());
        Box::new(move |ledger| {
            let mut stores = Stores::from(products.clone());
            stores.ledger = ledger;
            stores
        })
    };
    run(fixture, keeps, None, Config { failure_persistence: None, ..config(cases) });
}

/// A rule of a host application, and the same rule for the model.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct Ruled {
    /// The rule that the service asks.
    pub rule: Arc<dyn Rule>,
    /// The rule that the model asks. Returns the code of the refusal, or `None` if the use is allowed. The arguments
    /// are the key as it is after the use, and the time of the use in milliseconds since 1970. The model's keys do not
    /// expose their orders, so check a rule about orders only with [`rules::check`](crate::rules::check).
    pub model: fn(&Key, i64) -> Option<&'static str>,
}

/// Checks `cases` histories on a service with a rule of a host application.
///
/// # Panics
///
/// As [`check`].
pub fn check_ruled<F>(fixture: impl Fn() -> F, ruled: &Ruled, cases: u32)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let config = Config { failure_persistence: None, ..config(cases) };
    run(fixture, || Box::new(Stores::from), Some(ruled), config);
}

/// Returns a configuration for [`check_with`]: this number of cases, and at most two minutes or 20,000 attempts to
/// shrink a failure. Unlike in [`check`], the field `failure_persistence` has proptest's default.
#[must_use]
pub fn config(cases: u32) -> Config {
    Config { cases, max_shrink_iters: 20_000, max_shrink_time: 120_000, ..Config::default() }
}

/// Checks histories with this proptest configuration.
///
/// # Panics
///
/// As [`check`].
pub fn check_with<F>(fixture: impl Fn() -> F, config: Config)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    run(fixture, || Box::new(Stores::from), None, config);
}

/// Plays one history on a new fixture. Use this function to turn a history that [`check`] found into a regression test.
///
/// # Panics
///
/// If the service answers differently from the model.
pub fn play<F>(fixture: F, steps: Vec<Step>)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let keeps = Box::new(Stores::from);
    runtime().block_on(history((fixture, keeps, None), Model::new(), steps, || {}));
}

/// Returns the stores of a service, given the opened store.
type Keeps<S> = Box<dyn Fn(Arc<S>) -> Stores + Send>;

fn run<F: Fixture<Store: Ledger + Sized>>(
    fixture: impl Fn() -> F,
    keeps: impl Fn() -> Keeps<F::Store>,
    ruled: Option<&Ruled>,
    config: Config,
) {
    let runtime = runtime();
    let result = TestRunner::new(config).run(&Model::sequential_strategy(STEPS), |(model, steps, seen)| {
        runtime.block_on(history((fixture(), keeps(), ruled.cloned()), model, steps, || {
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

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

async fn history<F: Fixture<Store: Ledger + Sized>>(
    (fixture, keeps, ruled): (F, Keeps<F::Store>, Option<Ruled>),
    mut model: Model,
    steps: Vec<Step>,
    seen: impl Fn(),
) {
    model.judge = ruled.as_ref().map(|ruled| ruled.model);
    let mut service = Service::open(fixture, keeps, ruled.map(|ruled| ruled.rule)).await;
    for step in steps {
        let is_possible = match step {
            Step::Event { .. } | Step::FetchOnce { .. } | Step::Chores => service.has_office(),
            _ => true,
        };
        if !is_possible {
            continue;
        }
        // Counts the steps that were reached, so that shrinking can remove the others at once.
        seen();
        model = Model::apply(model, &step);
        service.apply(&step, &model).await;
    }
    service.close().await;
}
