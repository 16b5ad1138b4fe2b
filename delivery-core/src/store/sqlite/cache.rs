//! The data that the store has in memory: keys, products, posts, and [pending](super::pending) counts of uses.
//!
//! The key cache contains keys exactly as the last commit left them. Only the writer replaces an entry, after its
//! commit. If a reader does not find a key, it adds a placeholder to the cache, reads the row, and replaces the
//! placeholder by the row. If the writer has committed a change of the key in the meantime, the cache keeps the
//! writer's row.

use std::fmt;

use quick_cache::sync;

use super::pending::Pending;
use crate::key::KeyId;
use crate::ledger::plan::Row;
use crate::store::cache::{PostCache, ProductCache};

/// The maximum number of cached keys. A key takes about 500 bytes, so a full cache takes 130 MB.
const KEYS: usize = 1 << 18;

pub(super) struct Cache {
    pub(super) keys: sync::Cache<KeyId, Row>,
    pub(super) products: ProductCache,
    pub(super) posts: PostCache,
    pub(super) pending: Pending,
}

impl Cache {
    pub(super) fn new() -> Self {
        let (products, posts, pending) = (ProductCache::default(), PostCache::default(), Pending::default());
        Self { keys: sync::Cache::new(KEYS), products, posts, pending }
    }

    /// Returns the cached row of the key, which may be newer than `row`, or `row` if the key is not cached.
    pub(super) fn current(&self, row: Row) -> Row {
        self.keys.peek(&row.key.id()).unwrap_or(row)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}
