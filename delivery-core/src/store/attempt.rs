//! How, and how often, an operation is attempted that conflicts with an operation of another server.
//!
//! The first attempt is [optimistic](Attempt::Optimistic), the second plans on [freshly read](Attempt::Reloaded) rows,
//! and all further attempts on [locked](Attempt::Locking) rows. The first two write a row only if its version is still
//! the one that was loaded. Locked keys cannot change, so a locking attempt conflicts only if another server inserts
//! the same order meanwhile; the next attempt then finds that order. [`MAX_ATTEMPTS`] limits the number of attempts.
//! SQLite has one writer, so its first attempt never conflicts.

/// How the rows are obtained on which a batch is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a store handles each")]
pub enum Attempt {
    /// Rows may come from a cache, and purchases may be assumed absent without a query.
    Optimistic,
    /// Rows are read, not taken from a cache.
    Reloaded,
    /// Rows are locked, then read.
    Locking,
}

/// How often an operation of a batch is attempted before its caller gets `StoreError::Conflict`.
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
