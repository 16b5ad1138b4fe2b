//! What a refusal, and what a store's failure, means to its caller.

use std::error::Error;
use std::sync::Arc;

use thiserror::Error;

use crate::key::{Key, Refusal};

type Source = Arc<dyn Error + Send + Sync>;

/// A change that a key does not allow, and the key as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{refusal}")]
#[expect(clippy::exhaustive_structs, reason = "a pair")]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// The key.
    pub key: Key,
}

/// A store could not do what it was asked. Unless a variant says otherwise, nothing has happened.
///
/// It displays without secrets and without data; the cause is kept as [`source`](Error::source), for the log alone.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database is unavailable, full, overloaded or closed: the same call may succeed later. Answered 503.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// Why, in a few lower-case words.
        reason: &'static str,
        /// The cause.
        #[source]
        source: Option<Source>,
    },
    /// The operation was handed to the database, and its answer was lost: it happened, or it did not. Answered 503.
    #[error("the database did not say whether the operation happened")]
    Unknown {
        /// The cause.
        #[source]
        source: Option<Source>,
    },
    /// Another transaction holds a row that the operation needs, or has changed it meanwhile. Nothing has happened; the same
    /// call may succeed a moment later. Answered 503.
    #[error("another transaction holds or has changed what this needs")]
    Conflict {
        /// The cause.
        #[source]
        source: Option<Source>,
    },
    /// No space is left: what must be written fails, what is there can be read. Answered 503.
    #[error("no space is left on the disk")]
    Full {
        /// The cause.
        #[source]
        source: Option<Source>,
    },
    /// The database refuses the statement for what is in it, and will refuse it again. Nothing has happened. Answered 500.
    #[error("the database refuses a statement")]
    Refused {
        /// The cause.
        #[source]
        source: Option<Source>,
    },
    /// What was read is not what a store of this version writes. Answered 500.
    #[error("the store holds what it should not: {what}")]
    Corrupt {
        /// What was found, in a few lower-case words.
        what: &'static str,
        /// The cause.
        #[source]
        source: Option<Source>,
    },
    /// The store was made with none of the signing secrets it is used with now.
    #[error(
        "the store was made with none of these signing secrets: its keys would all be invalid; start with the secret it was made with"
    )]
    ForeignSecret,
    /// The store's keys were signed most recently with a secret that is not among those it is used with now.
    #[error(
        "the store was used with a newer signing secret than these: keys that were sold with it would be invalid; \
         start with a list that has the newer secret too"
    )]
    RetiredSecret,
    /// This store does not do such a thing, on purpose: products are managed elsewhere. Answered 404.
    #[error("not supported by this store")]
    Unsupported,
}

impl StoreError {
    /// An operation of which nobody knows whether it happened.
    #[must_use]
    pub fn unknown(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unknown { source: Some(Arc::new(source)) }
    }

    /// A conflict with another transaction.
    #[must_use]
    pub fn conflict(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Conflict { source: Some(Arc::new(source)) }
    }

    /// A statement that the database refuses.
    #[must_use]
    pub fn refused(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused { source: Some(Arc::new(source)) }
    }

    /// A failure that may pass.
    #[must_use]
    pub fn unavailable(reason: &'static str) -> Self {
        Self::Unavailable { reason, source: None }
    }

    /// A failure that may pass, with its cause.
    #[must_use]
    pub fn unavailable_because(reason: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable { reason, source: Some(Arc::new(source)) }
    }

    /// Data that cannot be.
    #[must_use]
    pub fn corrupt(what: &'static str) -> Self {
        Self::Corrupt { what, source: None }
    }

    /// Data that cannot be, with its cause.
    #[must_use]
    pub fn corrupt_because(what: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Corrupt { what, source: Some(Arc::new(source)) }
    }
}
