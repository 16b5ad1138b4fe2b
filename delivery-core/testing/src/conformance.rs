//! Conformance cases: what an implementation of a port must do, as tests that anyone can run.
//!
//! Each [`Case`] has a name that states the promise. Run every case of [`LEDGER`], [`CATALOG`] and [`RATE_LIMITER`]; each
//! gets a store of its own from your function. A case panics where the promise is broken.

mod catalog;
mod fixtures;
mod ledger;
mod limiter;
mod messages;
mod orders;
mod queries;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::ManualClock;
use delivery_core::limit::RateLimiter;
use delivery_core::store::{CatalogEditor, Ledger, Posts};

pub use self::catalog::{CATALOG, Shop};
pub use self::ledger::LEDGER;
pub use self::limiter::RATE_LIMITER;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A promise and its check, for ports of type `P`.
#[derive(Debug, Clone, Copy)]
pub struct Case<P: ?Sized + 'static> {
    name: &'static str,
    check: fn(Arc<P>) -> Running,
}

impl<P: ?Sized> Case<P> {
    const fn new(name: &'static str, check: fn(Arc<P>) -> Running) -> Self {
        Self { name, check }
    }

    /// The promise.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl Case<dyn Ledger> {
    /// Checks the promise on a new, empty ledger. Needs a Tokio runtime, best of several threads.
    pub async fn run<L: Ledger, F: Future<Output = L> + Send>(&self, new: impl FnOnce() -> F + Send) {
        (self.check)(Arc::new(new().await)).await;
    }
}

impl Case<dyn Shop> {
    /// Checks the promise on a new, empty catalog.
    pub async fn run<C: CatalogEditor + Posts, F: Future<Output = C> + Send>(&self, new: impl FnOnce() -> F + Send) {
        (self.check)(Arc::new(new().await)).await;
    }
}

/// A limiter under test, and the clock that it measures time on.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a pair")]
pub struct Limiter {
    /// The limiter.
    pub limiter: Arc<dyn RateLimiter>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
}

impl Case<Limiter> {
    /// Checks the promise on a new limiter that takes its time from the clock it is given.
    pub async fn run<R: RateLimiter>(&self, new: impl FnOnce(Arc<ManualClock>) -> R + Send) {
        let clock = Arc::new(ManualClock::default());
        let limiter = Arc::new(new(clock.clone()));
        (self.check)(Arc::new(Limiter { limiter, clock })).await;
    }
}

/// A list of cases: a function's name, read as a sentence, names its promise.
macro_rules! cases {
    ($($check:ident),+ $(,)?) => {
        &[$(Case::new(stringify!($check), |port| Box::pin($check(port)))),+]
    };
}
use cases;
