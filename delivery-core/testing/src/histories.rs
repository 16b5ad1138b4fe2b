//! Histories: whatever happens in whatever order, the service answers as a naive model of it does, over your store.
//!
//! [`check`] generates histories of orders, keys, validations, fetches that may come again, guesses, what the seller changes of
//! keys, moving clocks, mail servers that fail, restarts and crashes, up to sixty steps each. After every step the service must have answered as the [`Model`] says, and
//! every key, history and e-mail must be as the model has it. A failure shrinks to a shorter history that still fails.
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
use delivery_core::store::{CatalogEditor, Ledger, Posts};

pub use self::message::Topic;
pub use self::model::{Key, Model};
use self::service::Service;
pub use self::step::{Answer, Limit, Step, Told};
use crate::Fixture;

/// Steps of a history.
const STEPS: std::ops::Range<usize> = 1..60;

/// Checks so many histories, each over a new fixture of a store that keeps everything.
///
/// Histories are new with each run. Copy the steps of one that failed into a test that [`play`]s them.
///
/// # Panics
///
/// If a history breaks: with the shortest that was found in two minutes.
pub fn check<F>(fixture: impl Fn() -> F, cases: u32)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    check_with(fixture, Config { failure_persistence: None, ..config(cases) });
}

/// Checks so many histories over a store that keeps keys and messages alone: products are kept in memory.
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
    run(fixture, keeps, Config { failure_persistence: None, ..config(cases) });
}

/// A configuration for [`check_with`]: so many cases, and two minutes at most to shrink a failure.
#[must_use]
pub fn config(cases: u32) -> Config {
    Config { cases, max_shrink_iters: 20_000, max_shrink_time: 120_000, ..Config::default() }
}

/// Checks histories by a configuration of proptest's.
///
/// # Panics
///
/// As [`check`].
pub fn check_with<F>(fixture: impl Fn() -> F, config: Config)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    run(fixture, || Box::new(Stores::from), config);
}

/// Plays one history over a new fixture, such as one that [`check`] found and that is to stay mended.
///
/// # Panics
///
/// If the service answers otherwise than its model.
pub fn play<F>(fixture: F, steps: Vec<Step>)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let keeps = Box::new(Stores::from);
    runtime().block_on(history((fixture, keeps), Model::new(), steps, || {}));
}

/// Where a service keeps things, whose store was opened.
type Keeps<S> = Box<dyn Fn(Arc<S>) -> Stores + Send>;

fn run<F: Fixture<Store: Ledger + Sized>>(
    fixture: impl Fn() -> F,
    keeps: impl Fn() -> Keeps<F::Store>,
    config: Config,
) {
    let runtime = runtime();
    let result = TestRunner::new(config).run(&Model::sequential_strategy(STEPS), |(model, steps, seen)| {
        runtime.block_on(history((fixture(), keeps()), model, steps, || {
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
    (fixture, keeps): (F, Keeps<F::Store>),
    mut model: Model,
    steps: Vec<Step>,
    seen: impl Fn(),
) {
    let mut service = Service::open(fixture, keeps).await;
    for step in steps {
        let is_possible = match step {
            Step::Event { .. } | Step::FetchOnce { .. } | Step::Chores => service.has_office(),
            _ => true,
        };
        if !is_possible {
            continue;
        }
        // Shrinking leaves out the steps that were not reached.
        seen();
        model = Model::apply(model, &step);
        service.apply(&step, &model).await;
    }
    service.close().await;
}
