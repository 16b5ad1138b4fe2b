//! Opens the store under test.

use std::future::Future;
use std::sync::Arc;

/// The place of a store, such as a file. A store that is opened there again has everything that was acknowledged
/// before.
///
/// A function that creates a store is a fixture whose place is new and empty each time. That is enough for the cases of
/// [`LEDGER`](crate::conformance::LEDGER) and [`CATALOG`](crate::conformance::CATALOG). The cases of
/// [`REOPENED`](crate::conformance::REOPENED) and [`SHARED`](crate::conformance::SHARED) open one place several times:
///
/// ```
/// use std::sync::Arc;
/// use delivery_core::store::SqliteStore;
/// use delivery_testing::Fixture;
///
/// struct InAFolder(tempfile::TempDir);
///
/// impl Fixture for InAFolder {
///     type Store = SqliteStore;
///
///     async fn open(&self) -> Arc<SqliteStore> {
///         Arc::new(SqliteStore::open(self.0.path().join("delivery.db")).await.unwrap())
///     }
/// }
/// ```
pub trait Fixture: Send + Sync {
    /// The store under test.
    type Store: ?Sized;

    /// Opens the store. Unless it supports several open handles at once, callers
    /// [close](delivery_core::store::Backend::close) it before they open it again.
    fn open(&self) -> impl Future<Output = Arc<Self::Store>> + Send;

    /// Simulates a crash. It is called while the store is open, and the store is then opened again without being
    /// closed. A fixture whose files can be opened only once at a time copies them here, and opens the copy from then
    /// on.
    fn crash(&mut self) {}
}

impl<F, S, R> Fixture for F
where
    F: Fn() -> R + Send + Sync,
    R: Future<Output = S> + Send,
{
    type Store = S;

    async fn open(&self) -> Arc<S> {
        Arc::new(self().await)
    }
}
