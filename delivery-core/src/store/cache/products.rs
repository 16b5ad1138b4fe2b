//! The product cache: products and their list, until something about them changes.
//!
//! A reader that misses takes note of [`version`](ProductCache::version), reads the database, and offers what it read. If a
//! product was changed meanwhile, what was offered is not kept: it may be old.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::order::Source;
use crate::product::Listing;
use crate::product::{Product, ProductId, RefName};

/// Bytes of product content held at most.
const CONTENT: usize = 64 << 20;
/// Names of products held at most.
const NAMES: usize = 10_000;

/// Products by number, and the list of them where one store alone changes it.
#[derive(Debug, Default)]
pub(in crate::store) struct ProductCache(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    products: HashMap<ProductId, Arc<Product>>,
    listing: Option<Arc<Vec<Listing>>>,
    /// What platforms call products; `None` for a name that no product has.
    names: HashMap<(Source, RefName), Option<ProductId>>,
    /// Bytes of content.
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

    /// Counts changes.
    pub(in crate::store) fn version(&self) -> u64 {
        self.held().version
    }

    /// Offers a product that was read at `version`, and returns the one to use: of two that were read at once, one.
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
            // More content than fits is in use: start over rather than keep an order of eviction.
            held.products.clear();
            held.bytes = product.content().len();
        }
        held.products.insert(product.id(), product.clone());
        product
    }

    /// Offers a list that was read at `version`.
    pub(in crate::store) fn keep_listing(&self, listing: &Arc<Vec<Listing>>, version: u64) {
        let mut held = self.held();
        if held.version == version {
            held.listing = Some(listing.clone());
        }
    }

    /// The product of a name, if it is known which one that is, or that there is none.
    #[expect(clippy::option_option, reason = "not looked up, or looked up and not there")]
    pub(in crate::store) fn named(&self, source: &Source, name: &RefName) -> Option<Option<ProductId>> {
        self.held().names.get(&(source.clone(), name.clone())).copied()
    }

    /// Offers the product of a name, read at `version`.
    pub(in crate::store) fn keep_name(
        &self,
        source: &Source,
        name: &RefName,
        product: Option<ProductId>,
        version: u64,
    ) {
        let mut held = self.held();
        if held.names.len() >= NAMES {
            held.names.clear();
        }
        if held.version == version {
            held.names.insert((source.clone(), name.clone()), product);
        }
    }

    /// Forgets everything: a product was added or changed.
    pub(in crate::store) fn clear(&self) {
        let mut held = self.held();
        *held = Held { version: held.version + 1, ..Held::default() };
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
