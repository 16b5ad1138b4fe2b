//! The view: keys exactly as the last commit left them, without asking the database.
//!
//! Two rules keep it exact. Only the writer changes an entry, after its commit. A reader that misses loads the row and
//! offers it through a placeholder; if the writer committed a change of that key meanwhile, the writer's entry stands
//! and the reader's is dropped. Entries whose uses are not folded into their row yet are pinned: the row alone would
//! say too little, so such an entry is never evicted. A miss therefore means that the row tells all.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};

use crate::key::{Key, KeyId};
use crate::product::Listing;
use crate::store::shelf::Shelf;

/// Keys held at most, beside the pinned ones: some 250 bytes each.
const KEYS: usize = 1 << 18;

/// A key in view.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Key,
    /// Its row's number.
    pub(super) number: i64,
    /// Its newest use, where its history begins.
    pub(super) last_use: Option<i64>,
    /// Uses that its row does not count yet.
    pub(super) unfolded: u32,
}

pub(super) type Keys = Cache<KeyId, Entry, UnitWeighter, DefaultHashBuilder, Pinned>;

/// Keeps what is not folded.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned;

impl Lifecycle<KeyId, Entry> for Pinned {
    type RequestState = <DefaultLifecycle<KeyId, Entry> as Lifecycle<KeyId, Entry>>::RequestState;

    fn is_pinned(&self, _: &KeyId, entry: &Entry) -> bool {
        entry.unfolded > 0
    }
}

/// What is known without asking the database.
pub(super) struct View {
    pub(super) keys: Keys,
    pub(super) shelf: Shelf,
    catalog: Mutex<CatalogView>,
    folds: AtomicU64,
}

#[derive(Default)]
struct CatalogView {
    listing: Option<Arc<Vec<Listing>>>,
    /// Counts additions: a list that was read before one is not kept.
    additions: u64,
}

impl View {
    pub(super) fn new() -> Self {
        let keys = Cache::with(KEYS, KEYS as u64, UnitWeighter, DefaultHashBuilder::default(), Pinned);
        Self { keys, shelf: Shelf::default(), catalog: Mutex::default(), folds: AtomicU64::new(0) }
    }

    /// The keys whose rows do not count all of their uses.
    pub(super) fn unfolded(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().filter(|(_, entry)| entry.unfolded > 0).map(|(_, entry)| entry.key)
    }

    /// How often uses were folded: whoever reads rows and view together looks whether it changed meanwhile.
    pub(super) fn folds(&self) -> u64 {
        self.folds.load(Ordering::Acquire)
    }

    pub(super) fn folded(&self) {
        self.folds.fetch_add(1, Ordering::Release);
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
