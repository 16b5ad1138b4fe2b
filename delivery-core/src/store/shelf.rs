//! Products that were read: they never change, so they are kept, up to a bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::product::{Product, ProductId};

/// Bytes of product content held at most.
const CONTENT: usize = 64 << 20;

/// Products by number.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    products: HashMap<ProductId, Arc<Product>>,
    bytes: usize,
}

impl Shelf {
    pub(super) fn get(&self, id: ProductId) -> Option<Arc<Product>> {
        self.held().products.get(&id).cloned()
    }

    /// Keeps a product, and answers the one that is kept: of two that were read at once, one.
    pub(super) fn keep(&self, product: Arc<Product>) -> Arc<Product> {
        let mut held = self.held();
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

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
