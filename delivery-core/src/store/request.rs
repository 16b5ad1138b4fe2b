//! Requests that may be repeated, as a store keeps them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;

/// Requests that may be repeated, for stores that know them: their [`Storage`](super::Storage) loads and persists
/// [`RequestRow`](crate::ledger::RequestRow)s.
#[async_trait]
pub trait Requests: Send + Sync {
    /// Deletes requests that were first made before `before`, and returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    async fn prune_requests(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}
