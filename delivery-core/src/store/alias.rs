//! Aliases: MACs of key texts that were made elsewhere, by which imported keys are found.

use async_trait::async_trait;

use super::StoreError;
use crate::key::{Alias, KeyId};

/// Finds keys by their aliases, for stores that keep aliases. The store's [`Storage`](super::Storage) implementation
/// loads and persists the [alias](crate::ledger::Writes::aliases) of each imported key. A key that replaces an imported
/// key does not get its alias.
///
/// # To ensure correctness
///
/// * Persist an alias in the same commit as its key. Never give an alias a second key, however many calls race.
#[async_trait]
pub trait Aliases: Send + Sync {
    /// Returns the id of the key that has one of these aliases; `None` if there is no such key. If several of the
    /// aliases have a key, returns the key of the first of these aliases.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn alias(&self, any_of: &[Alias]) -> Result<Option<KeyId>, StoreError>;

    /// Returns whether the store has any alias. The time that this takes hardly depends on the number of aliases.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn has_aliases(&self) -> Result<bool, StoreError>;
}
