//! Secrets of commerce platforms that the seller sets at the desk (the seller's web pages).

use std::fmt;

use async_trait::async_trait;

use super::StoreError;
use crate::ledger::Edit;
use crate::order::Source;

/// Secrets of commerce platforms, for stores that keep them. A store receives them encrypted and cannot decrypt them.
///
/// # To ensure correctness
///
/// * Once [`set_platform_secret`](Self::set_platform_secret) has returned, every server finds the secret, or no secret
///   if it was removed.
#[async_trait]
pub trait PlatformSecrets: Send + Sync {
    /// Returns all secrets, in any order.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn platform_secrets(&self) -> Result<Vec<SealedSecret>, StoreError>;

    /// Sets or replaces the secret of a platform. If `sealed` is `None`, removes the secret. The change and its audit
    /// entry, [`Action::of_secret`](crate::ledger::Action::of_secret), are one commit. Removing a secret that does not
    /// exist changes nothing and adds no audit entry.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change may not have been saved.
    async fn set_platform_secret(&self, source: &Source, sealed: Option<Vec<u8>>, edit: Edit)
    -> Result<(), StoreError>;

    /// Replaces the encrypted secret `from` of a platform by `to`, the same secret encrypted again. Changes nothing if
    /// the platform's current secret is not `from`. Adds no audit entry.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change may not have been saved.
    async fn reseal_platform_secret(&self, source: &Source, from: &[u8], to: Vec<u8>) -> Result<(), StoreError>;
}

/// The encrypted secret of a platform.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct SealedSecret {
    /// The platform.
    pub source: Source,
    /// The secret, encrypted and authenticated.
    pub sealed: Vec<u8>,
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecret").field("source", &self.source).finish_non_exhaustive()
    }
}
