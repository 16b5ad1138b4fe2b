//! Watches for changes that other servers make to products.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::connect::{ACQUIRE, Sessions};
use super::error::store_error;
use crate::store::StoreError;
use crate::store::cache::ProductCache;

/// How often to check whether another server has changed a product. The store promises to notice a change within a
/// second.
const WATCH: Duration = Duration::from_millis(500);

/// Clears the cache when another server has changed a product. Runs until it is aborted. While the database does not
/// answer, changes go unnoticed, and cached products are served.
pub(super) async fn watch(sessions: Sessions, cache: Arc<ProductCache>) {
    let mut known: Option<i64> = None;
    loop {
        tokio::time::sleep(WATCH).await;
        let Ok(version) = timeout(ACQUIRE, version(&sessions)).await else { continue };
        // The first check clears the cache too, because products that were cached before this check may be outdated.
        if let Ok(version) = version
            && known.replace(version) != Some(version)
        {
            cache.clear();
        }
    }
}

async fn version(sessions: &Sessions) -> Result<i64, StoreError> {
    let mut session = sessions.read().await?;
    let version = session.scalar("SELECT version FROM delivery_catalog").fetch_one(&mut *session).await;
    session.finish().await.map_err(store_error)?;
    version.map_err(store_error)
}
