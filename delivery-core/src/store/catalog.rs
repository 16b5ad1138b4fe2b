//! Products and posts.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;
use crate::HostRef;
use crate::post::{Category, NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};

/// The products that are sold. See the [module documentation](super) for how to implement it.
#[async_trait]
pub trait Catalog: Debug + Send + Sync + 'static {
    /// The product with this number, archived or not. Return the same `Arc` while the product stays the same: it carries the
    /// encoded answer.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError>;

    /// All products that are not archived, by number, without their content. Return the same `Arc` while nothing changes: the
    /// list is then encoded once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError>;
}

/// A catalog that can be edited. Every server that shares it serves a change within a second.
#[async_trait]
pub trait CatalogEditor: Catalog {
    /// Adds a product durably under a number of its own.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if another product has the host's name for it; another [`StoreError`] if nothing was added.
    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError>;

    /// The product that the host [calls](crate::HostRef) so, archived or not.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError>;

    /// Replaces what a product says, durably; `None` if there is no such product. It stays archived if it is.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn update_product(&self, id: ProductId, product: NewProduct) -> Result<Option<Arc<Product>>, StoreError>;

    /// Archives a product, durably: it is neither listed nor sold any more, and keys sold before still fetch it. Archiving it
    /// again changes nothing. `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn archive_product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError>;
}

/// Posts that announce something.
#[async_trait]
pub trait Posts: Debug + Send + Sync + 'static {
    /// Posts that match `query`, newest first, as far as they hold 1 MiB of content together. Return the same `Arc` while
    /// nothing changes: the list is then encoded once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the posts cannot be read.
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError>;

    /// Adds a post durably under a number of its own.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError>;
}

/// Which posts to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct PostQuery {
    /// Of this category; of any if `None`.
    pub category: Option<Category>,
    /// Published at this instant or before.
    pub until: DateTime<Utc>,
    /// At most so many.
    pub limit: usize,
}
