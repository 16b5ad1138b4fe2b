//! The stores of a service.

use std::sync::Arc;

use crate::store::{Catalog, CatalogEditor, Ledger, Posts, ProductNames};

/// The stores of a service. An `Arc` of a store that implements [`Ledger`], [`CatalogEditor`] and [`Posts`] converts
/// into this type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stores {
    /// The store of keys, orders and messages.
    pub ledger: Arc<dyn Ledger>,
    /// The catalog of products.
    pub catalog: Arc<dyn Catalog>,
    /// The editor of products, for the API; `None` if the host application manages products itself.
    pub editor: Option<Arc<dyn CatalogEditor>>,
    /// The store of posts; `None` if the service has no posts.
    pub posts: Option<Arc<dyn Posts>>,
    /// The store of the names that commerce platforms use for products. If it is `None`, platform events can name a
    /// product only by its number in this service.
    pub names: Option<Arc<dyn ProductNames>>,
}

impl Stores {
    /// Returns stores with a catalog that the host application manages itself. There is no editor, no store of posts
    /// and no store of the names that platforms use.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, catalog: Arc<dyn Catalog>) -> Self {
        Self { ledger, catalog, editor: None, posts: None, names: None }
    }
}

impl<S: Ledger + CatalogEditor + Posts> From<Arc<S>> for Stores {
    fn from(store: Arc<S>) -> Self {
        let (editor, names) = (Some(store.clone() as _), Some(store.clone() as _));
        Self { ledger: store.clone(), catalog: store.clone(), editor, posts: Some(store), names }
    }
}
