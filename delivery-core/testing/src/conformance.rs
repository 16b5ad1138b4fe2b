//! Conformance cases: what an implementation of a port must do, as tests that anyone can run.
//!
//! The name of each [`Case`] states the promise that the case checks. A case panics if the promise is broken. Each case
//! needs a new [`Fixture`] whose store is empty.
//!
//! | cases | for | check |
//! |---|---|---|
//! | [`LEDGER`] | every store | [`Ledger`], [`Backend`](delivery_core::store::Backend) |
//! | [`REOPENED`] | a durable store | that the store has everything when it is opened again |
//! | [`SHARED`] | a store that several servers use at once | two open handles of one store |
//! | [`INBOX`] | a store that keeps platform events | [`Inbox`](delivery_core::store::Inbox), [`Ledger::receive`] |
//! | [`REQUESTS`] | a ledger that recognises repeated requests | [`Requests`](delivery_core::store::Requests) |
//! | [`ALIASES`] | a store that keeps aliases of imported keys | [`Aliases`](delivery_core::store::Aliases) |
//! | [`RECORDS`] | a store that keeps records, products and posts | [`Records`](delivery_core::store::Records) |
//! | [`PAGES`] | a store that keeps what the pages need | [`SignIns`](delivery_core::store::SignIns), [`LostKeys`](delivery_core::store::LostKeys) |
//! | [`CATALOG`] | a catalog that can be edited, with posts | [`CatalogEditor`], [`Posts`] |
//! | [`FILES`] | a catalog that keeps the rows of files | [`Files`](delivery_core::store::Files) |
//! | [`RATE_LIMITER`] | a limiter | [`RateLimiter`] |
//!
//! Run the cases of [`RATE_LIMITER`] in a loop, with `Case::run`. For all other cases, the macro
//! [`conformance!`](crate::conformance!) makes one `#[test]` each:
//!
//! ```
//! mod memory {
//!     use delivery_testing::MemoryStore;
//!
//!     delivery_testing::conformance!(ledger, || async { MemoryStore::new() });
//! }
//! ```

mod aliases;
mod backlog;
mod catalog;
mod deals;
mod erase;
mod events;
mod expiry;
mod files;
mod fixtures;
mod inbox;
mod ledger;
mod limiter;
mod messages;
mod orders;
mod pages;
mod queries;
mod records;
mod reopened;
mod requests;
mod rotation;
mod shared;
mod uses;
mod waiting;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{Fixture, ManualClock};
use delivery_core::limit::RateLimiter;
use delivery_core::store::{CatalogEditor, Ledger, Posts};

pub use self::aliases::ALIASES;
pub use self::catalog::{CATALOG, Shop};
pub use self::files::FILES;
pub use self::fixtures::Whole;
pub use self::inbox::INBOX;
pub use self::ledger::LEDGER;
pub use self::limiter::RATE_LIMITER;
pub use self::pages::PAGES;
pub use self::records::RECORDS;
pub use self::reopened::REOPENED;
pub use self::requests::REQUESTS;
pub use self::shared::SHARED;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A promise and its check, for a port of type `P`.
#[derive(Debug, Clone, Copy)]
pub struct Case<P: ?Sized + 'static> {
    name: &'static str,
    check: fn(Arc<P>) -> Running,
}

impl<P: ?Sized> Case<P> {
    const fn new(name: &'static str, check: fn(Arc<P>) -> Running) -> Self {
        Self { name, check }
    }

    /// Returns the name, which states the promise.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl Case<dyn Ledger> {
    /// Checks the promise on a new, empty ledger. Needs a Tokio runtime, preferably with several threads.
    pub async fn run(&self, fixture: impl Fixture<Store: Ledger + Sized>) {
        (self.check)(fixture.open().await).await;
    }
}

impl Case<dyn Shop> {
    /// Checks the promise on a new, empty catalog.
    pub async fn run(&self, fixture: impl Fixture<Store: CatalogEditor + Posts + Sized>) {
        (self.check)(fixture.open().await).await;
    }
}

impl Case<dyn Whole> {
    /// Checks the promise on a new, empty store.
    pub async fn run(&self, fixture: impl Fixture<Store: Ledger + CatalogEditor + Posts + Sized>) {
        (self.check)(fixture.open().await).await;
    }
}

/// Opens the same ledger any number of times.
pub struct Ledgers(Box<dyn Fn() -> Opening + Send + Sync>);

type Opening = Pin<Box<dyn Future<Output = Arc<dyn Ledger>> + Send>>;

impl Ledgers {
    /// Returns a new handle of the ledger.
    async fn open(&self) -> Arc<dyn Ledger> {
        (self.0)().await
    }
}

impl fmt::Debug for Ledgers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledgers").finish_non_exhaustive()
    }
}

impl Case<Ledgers> {
    /// Checks the promise on a new, empty ledger. The case calls [`Fixture::open`] several times.
    pub async fn run(&self, fixture: impl Fixture<Store: Ledger + Sized> + 'static) {
        let fixture = Arc::new(fixture);
        let open = move || -> Opening {
            let fixture = fixture.clone();
            Box::pin(async move { fixture.open().await as Arc<dyn Ledger> })
        };
        (self.check)(Arc::new(Ledgers(Box::new(open)))).await;
    }
}

/// A limiter under test, and the clock that the limiter reads.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct Limiter {
    /// The limiter.
    pub limiter: Arc<dyn RateLimiter>,
    /// The limiter's clock.
    pub clock: Arc<ManualClock>,
}

impl Case<Limiter> {
    /// Checks the promise on the limiter that `new` returns. That limiter must read the clock that `new` receives.
    pub async fn run<R: RateLimiter>(&self, new: impl FnOnce(Arc<ManualClock>) -> R + Send) {
        let clock = Arc::new(ManualClock::default());
        let limiter = Arc::new(new(clock.clone()));
        (self.check)(Arc::new(Limiter { limiter, clock })).await;
    }
}

/// Makes a list of cases from functions whose names, read as sentences, state their promises. The macro `$each` passes
/// the names to [`conformance!`](crate::conformance!).
macro_rules! cases {
    ($(#[$doc:meta])* $list:ident: $port:ty, $each:ident, $($check:ident),+ $(,)?) => {
        $(#[$doc])*
        pub const $list: &[Case<$port>] = &[$(Case::new(stringify!($check), |port| Box::pin($check(port)))),+];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $each {
            ($fixture:expr) => { $crate::conformance!(@ $list, $fixture, $($check)+); };
        }
    };
}
use cases;

/// Runs one case by its name, in a runtime of its own.
#[doc(hidden)]
pub fn test<P: ?Sized, F: Future<Output = ()>>(
    cases: &'static [Case<P>],
    name: &str,
    run: impl FnOnce(&'static Case<P>) -> F,
) {
    let case = cases.iter().find(|case| case.name == name).expect("a case of this name");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(run(case));
}

/// Makes one `#[test]` of each conformance case: `conformance!(ledger, fixture)`, and likewise `inbox`, `records`,
/// `requests`, `aliases`, `pages`, `reopened`, `shared`, `catalog` and `files`. The second argument is an expression
/// that creates a [`Fixture`](crate::Fixture). The macro evaluates the expression once for each case.
///
/// ```
/// mod memory {
///     use delivery_testing::MemoryStore;
///
///     delivery_testing::conformance!(ledger, || async { MemoryStore::new() });
///     delivery_testing::conformance!(catalog, || async { MemoryStore::new() });
/// }
/// ```
#[macro_export]
macro_rules! conformance {
    (ledger, $fixture:expr) => { $crate::each_ledger_case!($fixture); };
    (reopened, $fixture:expr) => { $crate::each_reopened_case!($fixture); };
    (shared, $fixture:expr) => { $crate::each_shared_case!($fixture); };
    (records, $fixture:expr) => { $crate::each_records_case!($fixture); };
    (requests, $fixture:expr) => { $crate::each_request_case!($fixture); };
    (aliases, $fixture:expr) => { $crate::each_alias_case!($fixture); };
    (pages, $fixture:expr) => { $crate::each_pages_case!($fixture); };
    (inbox, $fixture:expr) => { $crate::each_inbox_case!($fixture); };
    (files, $fixture:expr) => { $crate::each_files_case!($fixture); };
    (catalog, $fixture:expr) => { $crate::each_catalog_case!($fixture); };
    (@ $list:ident, $fixture:expr, $($case:ident)+) => { $(
        #[test]
        fn $case() {
            $crate::conformance::test($crate::conformance::$list, stringify!($case), |case| case.run($fixture));
        }
    )+ };
}
