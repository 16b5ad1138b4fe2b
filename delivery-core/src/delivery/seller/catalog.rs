//! Products and posts.

use std::sync::Arc;

use super::Desk;
use crate::post::{NewPost, Post, PostId};
use crate::product::{NewProduct, Product, ProductId};
use crate::store::{CatalogEditor, Posts, StoreError};

impl Desk<'_> {
    /// Adds a product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if products are managed elsewhere; [`StoreError::Refused`] if another product has one of its
    /// names; another [`StoreError`] if nothing was added.
    pub async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        let added = self.editor()?.add_product(product, self.edit()).await?;
        #[cfg(feature = "platforms")]
        self.delivery.retry_events(None, None).await;
        Ok(added)
    }

    /// Replaces what a product says; `None` if there is no such product. Sales that waited for its names are applied.
    ///
    /// # Errors
    ///
    /// As [`add_product`](Self::add_product).
    pub async fn update_product(&self, id: ProductId, product: NewProduct) -> Result<Option<Arc<Product>>, StoreError> {
        let updated = self.editor()?.update_product(id, product, self.edit()).await?;
        #[cfg(feature = "platforms")]
        self.delivery.retry_events(None, None).await;
        Ok(updated)
    }

    /// Archives a product: it is neither listed nor sold any more, and keys sold before still fetch it. Archiving it again changes
    /// nothing. `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if products are managed elsewhere; another [`StoreError`] if nothing was changed.
    pub async fn archive_product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        self.editor()?.archive_product(id, self.edit()).await
    }

    /// Adds a post.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if there are no posts; another [`StoreError`] if nothing was added.
    pub async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.posts()?.add_post(post, self.edit()).await
    }

    /// The post with this number, published or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if there are no posts; another [`StoreError`] if the store cannot tell.
    pub async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        self.posts()?.post(id).await
    }

    /// Replaces what a post says; `None` if there is no such post.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if there are no posts; another [`StoreError`] if nothing was changed.
    pub async fn update_post(&self, id: PostId, post: NewPost) -> Result<Option<Post>, StoreError> {
        self.posts()?.update_post(id, post, self.edit()).await
    }

    /// Deletes a post. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if there are no posts; another [`StoreError`] if nothing was changed.
    pub async fn delete_post(&self, id: PostId) -> Result<bool, StoreError> {
        self.posts()?.delete_post(id, self.edit()).await
    }

    fn editor(&self) -> Result<&dyn CatalogEditor, StoreError> {
        self.delivery.inner.editor.as_deref().ok_or(StoreError::Unsupported)
    }

    fn posts(&self) -> Result<&dyn Posts, StoreError> {
        self.delivery.inner.posts.as_deref().ok_or(StoreError::Unsupported)
    }
}
