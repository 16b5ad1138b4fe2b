//! What is issued, and what issuing answers.

use super::Notice;
use crate::HostRef;
use crate::key::{Actor, Key, NewKey};

/// A key that is ready to be issued, and the messages that tell of it.
///
/// It is one operation: issued again, after a rollback or because the reply to a commit was lost, it comes to the same key, and
/// the answer is [`Issue::New`] each time. Prepare the order anew to learn whether it has a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct NewSale {
    /// The key.
    pub key: NewKey,
    /// The e-mail that brings it, unless none is sent, and the host's webhooks.
    pub messages: Vec<Notice>,
    /// Who issues it by hand, for the audit log; `None` for an order.
    pub by: Option<Actor>,
}

impl NewSale {
    /// A key that is issued with these messages, for an order if it has one.
    #[must_use]
    pub fn new(key: NewKey, messages: Vec<Notice>) -> Self {
        Self { key, messages, by: None }
    }

    /// The same sale, with the host's own name for the key.
    #[must_use]
    pub fn called(self, host_ref: HostRef) -> Self {
        Self { key: self.key.called(host_ref), ..self }
    }
}

/// What [`Ledger::issue`](crate::store::Ledger::issue) came to.
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
