//! How, and how often, an operation is retried after a conflict with an operation of another server.
//!
//! The first attempt is [optimistic](Attempt::Optimistic), the second uses [freshly read](Attempt::Reloaded) rows, and
//! all further attempts use [locked](Attempt::Locking) rows. The first two attempts write a row only if its version is
//! still the one that was loaded. Locked rows cannot change, so a locking attempt conflicts only if another server
//! meanwhile inserts a row that this attempt also inserts, such as the row of the same order. The next attempt then
//! finds that row. The stores of this crate make at most [`MAX_ATTEMPTS`] attempts. SQLite has one writer, so its first
//! attempt never conflicts.

/// How the rows that a batch of operations needs are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a store must handle each variant")]
pub enum Attempt {
    /// Rows may come from a cache. A purchase (an order of a product) may be assumed to have no key yet, without a
    /// query.
    Optimistic,
    /// Rows are read, not taken from a cache.
    Reloaded,
    /// Rows are locked, then read.
    Locking,
}

/// The maximum number of attempts for an operation of a batch. If the last attempt conflicts too, the caller gets
/// `StoreError::Conflict`.
#[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
pub(super) const MAX_ATTEMPTS: u32 = 10;

impl Attempt {
    /// Returns the kind of attempt that follows a conflict.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Optimistic => Self::Reloaded,
            Self::Reloaded | Self::Locking => Self::Locking,
        }
    }
}
