//! Opens the store under test.

use std::future::Future;
use std::sync::Arc;

/// The place of a store, such as a file. A store that is opened there again has everything that was acknowledged
/// before.
///
/// A function that creates a store is a fixture whose place is new and empty each time. Such a function is enough for
/// cases that open the store once. The cases of [`REOPENED`](crate::conformance::REOPENED) and
/// [`SHARED`](crate::conformance::SHARED), and [`histories`](crate::histories), open one place several times:
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

    /// Opens the store. Callers [close](delivery_core::store::Backend::close) the store before they open it again. The
    /// exceptions are the cases of [`SHARED`](crate::conformance::SHARED), which need several open handles at once, and
    /// [`crash`](Self::crash).
    fn open(&self) -> impl Future<Output = Arc<Self::Store>> + Send;

    /// Simulates a crash. [`histories`](crate::histories) calls this method while the store is open, and then opens the
    /// store again without closing it. If only one handle can have the files open, copy the files here, and let
    /// [`open`](Self::open) open the copy from then on. By default, the method does nothing.
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
