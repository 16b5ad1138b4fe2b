//! What is issued, and what issuing and changing a key come to.

use thiserror::Error;

use super::MessageId;
use crate::HostRef;
use crate::key::{Key, NewKey, Refusal};

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

/// A key that is ready to be issued, and the name of its message, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pair")]
pub struct Sale {
    /// The key.
    pub key: NewKey,
    /// The `Message-ID` of the e-mail that brings it; `None` if none is sent.
    pub message: Option<MessageId>,
}

impl Sale {
    /// The same sale, with the host's own name for the key.
    #[must_use]
    pub fn called(self, host_ref: HostRef) -> Self {
        Self { key: self.key.called(host_ref), ..self }
    }
}

/// What [`Ledger::issue`](super::Ledger::issue) came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a key is new or it is not")]
pub enum Issue {
    /// The key was issued now.
    New(Key),
    /// The order and product have this key already; nothing was written.
    Existing(Key),
}

impl Issue {
    /// The key, new or not.
    #[must_use]
    pub fn into_key(self) -> Key {
        match self {
            Self::New(key) | Self::Existing(key) => key,
        }
    }
}
