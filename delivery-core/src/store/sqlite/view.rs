//! The view: keys exactly as the last commit left them, without asking the database.
//!
//! Two rules keep it exact. Only the writer changes an entry, after its commit. A reader that misses loads the row, adds
//! the uses that are not folded, and offers the entry through a placeholder; if the writer committed a change of that key
//! meanwhile, the writer's entry stands and the reader's is dropped.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;

use super::unfolded::Unfolded;
use crate::key::{Key, KeyId};
use crate::product::Listing;
use crate::store::lists::PostLists;
use crate::store::shelf::Shelf;

/// Keys held at most: some 250 bytes each.
const KEYS: usize = 1 << 18;

/// A key in view.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Key,
    /// Its row's number.
    pub(super) number: i64,
    /// Its newest use, where its history begins.
    pub(super) last_use: Option<i64>,
}

/// What is known without asking the database.
pub(super) struct View {
    pub(super) keys: Cache<KeyId, Entry>,
    pub(super) shelf: Shelf,
    pub(super) lists: PostLists,
    catalog: Mutex<CatalogView>,
    unfolded: Mutex<Unfolded>,
}

#[derive(Default)]
struct CatalogView {
    listing: Option<Arc<Vec<Listing>>>,
    /// Counts additions: a list that was read before one is not kept.
    additions: u64,
}

impl View {
    pub(super) fn new() -> Self {
        let keys = Cache::new(KEYS);
        Self {
            keys,
            shelf: Shelf::default(),
            lists: PostLists::default(),
            catalog: Mutex::default(),
            unfolded: Mutex::default(),
        }
    }

    /// The uses that are not folded.
    pub(super) fn unfolded(&self) -> MutexGuard<'_, Unfolded> {
        self.unfolded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list, or the number of additions to offer a freshly read one with.
    pub(super) fn listing(&self) -> Result<Arc<Vec<Listing>>, u64> {
        let catalog = self.catalog();
        catalog.listing.clone().ok_or(catalog.additions)
    }

    /// Keeps a list that was read when there were `additions`, if there are no more now.
    pub(super) fn keep_listing(&self, listing: &Arc<Vec<Listing>>, additions: u64) {
        let mut catalog = self.catalog();
        if catalog.additions == additions {
            catalog.listing = Some(listing.clone());
        }
    }

    /// Forgets the list: a product was added.
    pub(super) fn product_added(&self) {
        let mut catalog = self.catalog();
        catalog.additions += 1;
        catalog.listing = None;
    }

    fn catalog(&self) -> MutexGuard<'_, CatalogView> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}
