//! Aliases: MACs of key texts that were made elsewhere, by which imported keys are found.

use async_trait::async_trait;

use super::StoreError;
use crate::key::{Alias, KeyId};

/// Finds keys by their aliases, for stores that keep aliases. The [`Storage`](super::Storage) of such a store loads and
/// persists the [alias](crate::ledger::Writes::aliases) of each imported key. The key that replaces such a key does not
/// get the alias.
///
/// # To ensure correctness
///
/// * Persist an alias in the same commit as its key. Never give an alias a second key, however many calls race.
#[async_trait]
pub trait Aliases: Send + Sync {
    /// Returns the id of the key that has one of these aliases; `None` if there is no such key. If several of the
    /// aliases have a key, this is the key of the first one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn alias(&self, any_of: &[Alias]) -> Result<Option<KeyId>, StoreError>;

    /// Returns whether the store has any alias. This takes about the same time however many there are.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn has_aliases(&self) -> Result<bool, StoreError>;
}
