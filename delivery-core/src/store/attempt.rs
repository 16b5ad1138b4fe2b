//! How often, and how, an operation is tried that conflicts with another server's.
//!
//! An operation is tried [optimistically](Attempt::Optimistic), then on rows that were [just read](Attempt::Reloaded), then
//! on rows that are [locked](Attempt::Locking). The first two write a row only if it still is the version that the plan
//! began with. Locked keys cannot change; only an order that is inserted meanwhile can still conflict, and is there the next
//! time. [`MAX_ATTEMPTS`] bounds them all. SQLite has one writer and never gets beyond the first.

/// What a batch is planned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a store handles each")]
pub enum Attempt {
    /// Rows may come from a cache, and purchases may be assumed absent without a query.
    Optimistic,
    /// Rows are read.
    Reloaded,
    /// Rows are locked, then read.
    Locking,
}

/// How often an operation of a batch is tried before its caller is told of the conflict.
#[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
pub(super) const MAX_ATTEMPTS: u32 = 10;

impl Attempt {
    /// What is tried after a conflict.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Optimistic => Self::Reloaded,
            Self::Reloaded | Self::Locking => Self::Locking,
        }
    }
}
