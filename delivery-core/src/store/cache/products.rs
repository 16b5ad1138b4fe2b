//! The product cache. It contains products and the list of products. Adding or changing a product empties the cache.
//!
//! If a reader does not find what it needs in the cache, it reads the cache's [`version`](ProductCache::version),
//! queries the database, and passes the result to the cache together with the version. If a product was changed in the
//! meantime, the cache does not add the result, because it may be outdated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::product::{Listing, Product, ProductId};

/// The maximum length of the contents of all cached products together, in bytes.
const CONTENT: usize = 64 << 20;

/// Products by number. Also contains the list of products, unless several servers can share the database.
#[derive(Debug, Default)]
pub(in crate::store) struct ProductCache(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    products: HashMap<ProductId, Arc<Product>>,
    listing: Option<Arc<Vec<Listing>>>,
    /// The length of the contents of all cached products together, in bytes.
    bytes: usize,
    version: u64,
}

impl ProductCache {
    pub(in crate::store) fn product(&self, id: ProductId) -> Option<Arc<Product>> {
        self.held().products.get(&id).cloned()
    }

    pub(in crate::store) fn listing(&self) -> Option<Arc<Vec<Listing>>> {
        self.held().listing.clone()
    }

    /// Returns the version of the cache: how often [`clear`](Self::clear) was called so far.
    pub(in crate::store) fn version(&self) -> u64 {
        self.held().version
    }

    /// Adds a product that was read at `version`, unless a product was changed since. Returns the product to use. If
    /// two callers read the same product at once, both get the `Arc` that was added first.
    pub(in crate::store) fn keep(&self, product: Arc<Product>, version: u64) -> Arc<Product> {
        let mut held = self.held();
        if held.version != version {
            return product;
        }
        if let Some(kept) = held.products.get(&product.id()) {
            return kept.clone();
        }
        held.bytes += product.content().len();
        if held.bytes > CONTENT {
            // The products in use do not fit into the cache. Emptying it is simpler than maintaining an order of
            // eviction.
            held.products.clear();
            held.bytes = product.content().len();
        }
        held.products.insert(product.id(), product.clone());
        product
    }

    /// Adds a list that was read at `version`, unless a product was changed since.
    pub(in crate::store) fn keep_listing(&self, listing: &Arc<Vec<Listing>>, version: u64) {
        let mut held = self.held();
        if held.version == version {
            held.listing = Some(listing.clone());
        }
    }

    /// Empties the cache. Called when a product was added or changed, or may have been.
    pub(in crate::store) fn clear(&self) {
        let mut held = self.held();
        *held = Held { version: held.version + 1, ..Held::default() };
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
