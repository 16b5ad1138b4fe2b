//! A key that is ready to be issued. An [operation](super::Operation::Issue) issues it at once. As a part of an
//! [offer](super::Offer), it is issued only if a platform has reported that the product is paid for.

use super::Notice;
use crate::HostRef;
use crate::key::{Actor, Alias, NewKey};

/// A key that is ready to be issued, with the messages that announce it.
///
/// The same value may be issued again, for example after a rollback, or if the reply to a commit was lost. Each call
/// then returns [`Issue::New`](super::Issue::New) with the same key. To learn whether an order already has a key, issue
/// a value with a new key id for the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct NewSale {
    /// The key to issue.
    pub key: NewKey,
    /// The messages to queue: the e-mail that delivers the key, if any, and the host application's webhooks.
    pub messages: Vec<Notice>,
    /// The person who issues the key, for the audit log; `None` if an order is processed automatically.
    pub by: Option<Actor>,
    /// The uses and the alias of a key that another system sold and that is now imported; `None` for any other key.
    pub imported: Option<Imported>,
}

/// The uses and the alias of an imported key. An imported key is one that another system sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Imported {
    /// How often the key was used before the import. It is at most the use limit that is granted.
    pub used: u32,
    /// The alias of the key text that the other system gave to the buyer. If another key has this alias, nothing is
    /// issued, and the error is [`StoreError::Refused`](super::StoreError::Refused). If the purchase already has a key,
    /// the alias is not stored.
    pub alias: Option<Alias>,
}

impl NewSale {
    /// Creates a sale that issues `key` and queues `messages`. No person issues the key, and the key is not imported:
    /// [`by`](Self::by) and [`imported`](Self::imported) are `None`.
    #[must_use]
    pub fn new(key: NewKey, messages: Vec<Notice>) -> Self {
        Self { key, messages, by: None, imported: None }
    }

    /// Sets the host application's own name for the key.
    #[must_use]
    pub fn called(self, host_ref: HostRef) -> Self {
        Self { key: self.key.called(host_ref), ..self }
    }

    /// Returns the alias of the imported key; `None` if the key has no alias or is not imported.
    pub(super) fn alias(&self) -> Option<Alias> {
        self.imported?.alias
    }
}
