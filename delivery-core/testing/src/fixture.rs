//! Where the store under test comes from.

use std::future::Future;
use std::sync::Arc;

/// A place for a store: opened again, it holds what was acknowledged there.
///
/// A function that makes a store is a fixture that makes another, empty one each time, which is enough for the cases of
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
    /// The store.
    type Store: ?Sized;

    /// Opens the store. It was [closed](delivery_core::store::Backend::close) before, unless several handles may be open at
    /// once.
    fn open(&self) -> impl Future<Output = Arc<Self::Store>> + Send;

    /// What a crash leaves behind: called while the store is open, and before it is opened again without having been closed. A
    /// fixture whose files may be opened once at a time makes a copy here, and opens that from then on.
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
