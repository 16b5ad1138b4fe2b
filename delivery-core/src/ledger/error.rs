//! The errors that callers get: refusals and store failures.

use std::error::Error;
use std::sync::Arc;

use thiserror::Error;

use crate::key::{Key, Refusal};

type Source = Arc<dyn Error + Send + Sync>;

/// The refusal of a change or of a use, with the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{refusal}")]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct Refused {
    /// Why the key does not allow the change or the use.
    pub refusal: Refusal,
    /// The key, unchanged by the refusal.
    pub key: Key,
}

/// The failure of a store operation. Unless the documentation of a variant says otherwise, nothing was changed.
///
/// The error message contains no secrets and no data. The cause is available from [`source`](Error::source), for the
/// log only.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database is unavailable, overloaded, out of memory or closed. The same call may succeed later. The HTTP API
    /// answers 503.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// The reason, in a few lower-case words.
        reason: &'static str,
        /// The underlying error, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// The operation was sent to the database, but the reply was lost. The operation may or may not have happened. The
    /// HTTP API answers 503.
    #[error("the database did not say whether the operation happened")]
    Unknown {
        /// The underlying error, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// Another transaction has locked or changed a row that the operation needs. The operation changed nothing. The
    /// same call may succeed a moment later. The HTTP API answers 503.
    #[error("another transaction holds or has changed what this needs")]
    Conflict {
        /// The underlying error, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// The disk is full. Writes fail; reads still work. The HTTP API answers 503.
    #[error("no space is left on the disk")]
    Full {
        /// The underlying error, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// The database rejects the content of a statement, or another key already has the id or the alias of the key to
    /// issue. Trying again does not help. Nothing was changed. The HTTP API answers 500.
    #[error("the database refuses a statement")]
    Refused {
        /// The underlying error, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// The store contains something that no store of this version writes. Or the store has a fault, for example it did
    /// not load a row that an operation needs. The HTTP API answers 500.
    #[error("the store holds what it should not: {what}")]
    Corrupt {
        /// What was found, in a few lower-case words.
        what: &'static str,
        /// The underlying error, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// The store was never used with any of the signing secrets in use now, or the prefix of its keys is not the prefix
    /// in use now.
    #[error(
        "the store was made with none of these signing secrets: its keys would all be invalid; start with the secret, and the prefix of keys, it was made with"
    )]
    ForeignSecret,
    /// The secret that most recently signed keys of this store is not among the secrets in use now.
    #[error(
        "the store was used with a newer signing secret than these: keys that were sold with it would be invalid; \
         start with a list that has the newer secret too"
    )]
    RetiredSecret,
    /// The store deliberately does not support the call, for example because products are managed elsewhere. The HTTP
    /// API answers 404.
    #[error("not supported by this store")]
    Unsupported,
}

impl StoreError {
    /// Returns whether the store is unable to answer only now, so that a later call may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. } | Self::Conflict { .. } | Self::Full { .. })
    }

    /// Returns an [`Unknown`](Self::Unknown) error: the operation may or may not have happened.
    #[must_use]
    pub fn unknown(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unknown { source: Some(Arc::new(source)) }
    }

    /// Returns a [`Conflict`](Self::Conflict) error: another transaction interfered.
    #[must_use]
    pub fn conflict(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Conflict { source: Some(Arc::new(source)) }
    }

    /// Returns a [`Refused`](Self::Refused) error: the database rejects a statement.
    #[must_use]
    pub fn refused(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused { source: Some(Arc::new(source)) }
    }

    /// Returns an [`Unavailable`](Self::Unavailable) error without a cause: the same call may succeed later.
    #[must_use]
    pub fn unavailable(reason: &'static str) -> Self {
        Self::Unavailable { reason, source: None }
    }

    /// Returns an [`Unavailable`](Self::Unavailable) error with its cause: the same call may succeed later.
    #[must_use]
    pub fn unavailable_because(reason: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable { reason, source: Some(Arc::new(source)) }
    }

    /// Returns a [`Corrupt`](Self::Corrupt) error without a cause: the data is invalid.
    #[must_use]
    pub fn corrupt(what: &'static str) -> Self {
        Self::Corrupt { what, source: None }
    }

    /// Returns a [`Corrupt`](Self::Corrupt) error with its cause: the data is invalid.
    #[must_use]
    pub fn corrupt_because(what: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Corrupt { what, source: Some(Arc::new(source)) }
    }
}
