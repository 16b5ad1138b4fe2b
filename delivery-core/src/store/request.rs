//! Pruning of the stored requests that a client may repeat.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;

/// Prunes stored requests, for stores that recognize repeated requests. The [`Storage`](super::Storage) of such a store
/// loads and persists a [`RequestRow`](crate::ledger::RequestRow) for each request that has an idempotency key.
///
/// # To ensure correctness
///
/// * Persist a request in the same commit that counts its use. Otherwise a repetition could be counted again.
#[async_trait]
pub trait Requests: Send + Sync {
    /// Deletes requests that were first made before `before`. Returns how many requests were deleted.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these requests may not have been deleted.
    async fn prune_requests(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}
