//! Where a service keeps things.

use std::sync::Arc;

use crate::store::{Catalog, CatalogEditor, Ledger, Posts, ProductNames};

/// Where things are kept. An `Arc` of one store that does all of it converts into this.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stores {
    /// Keys, orders and messages.
    pub ledger: Arc<dyn Ledger>,
    /// Products.
    pub catalog: Arc<dyn Catalog>,
    /// Products, to be edited through the API; `None` if they are managed elsewhere.
    pub editor: Option<Arc<dyn CatalogEditor>>,
    /// Posts; `None` if there are none.
    pub posts: Option<Arc<dyn Posts>>,
    /// What commerce platforms call products; `None` if only their own numbers count.
    pub names: Option<Arc<dyn ProductNames>>,
}

impl Stores {
    /// A ledger, and a catalog that is managed elsewhere. There are no posts.
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
