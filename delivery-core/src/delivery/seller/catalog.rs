//! Products and posts.

use std::sync::Arc;

use super::Desk;
use crate::post::{NewPost, Post, PostId};
use crate::product::{NewProduct, Product, ProductId};
use crate::store::{CatalogEditor, Posts, StoreError};

/// The maximum number of times that a change is retried after a conflict with a concurrent change.
const ATTEMPTS: usize = 20;

impl Desk<'_> {
    /// Adds a product. Then retries platform events that wait for the seller, because they may have waited for this
    /// product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the host application manages products itself; [`StoreError::Refused`] if another
    /// product has one of the names of this product; another [`StoreError`] if the product may not have been added.
    pub async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        let added = self.editor()?.add_product(product, self.edit()).await?;
        self.delivery.retry_events(None, None).await;
        Ok(added)
    }

    /// Adds a product. If an identical product that is not archived exists, returns that product instead. A form that
    /// is submitted twice therefore adds only one product, unless it reaches two servers at the same moment.
    #[cfg(feature = "pages")]
    pub(crate) async fn add_product_once(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        let (delivery, actor) = (self.delivery.clone(), self.actor.clone());
        let added = async move {
            let desk = delivery.desk(&actor);
            let editor = desk.editor()?;
            for listed in editor.products().await?.iter().filter(|listed| product.is_called(&listed.name)) {
                let found = editor.product(listed.id).await?;
                if let Some(found) = found.filter(|found| *found.facts() == product) {
                    delivery.retry_events(None, None).await;
                    return Ok(found);
                }
            }
            desk.add_product(product).await
        };
        self.delivery.inner.add_in_turn(added).await
    }

    /// Replaces all fields of a product. Then retries platform events that wait for the seller, because they may have
    /// waited for this change. Returns `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// As for [`add_product`](Self::add_product).
    pub async fn update_product(&self, id: ProductId, product: NewProduct) -> Result<Option<Arc<Product>>, StoreError> {
        let updated = self.editor()?.update_product(id, product, None, self.edit()).await?;
        self.delivery.retry_events(None, None).await;
        Ok(updated)
    }

    /// Changes a product: `revise` gets the current product and returns its new fields. If two callers change
    /// different fields at the same time, both succeed. Then retries platform events, as
    /// [`update_product`](Self::update_product) does. Returns `Ok(Ok(None))` if there is no such product.
    ///
    /// # Errors
    ///
    /// As for [`add_product`](Self::add_product); [`StoreError::Conflict`] if others keep changing the product. The
    /// inner error is the one that `revise` returned. In that case nothing was changed.
    pub async fn revise_product<E>(
        &self,
        id: ProductId,
        revise: impl Fn(&Product) -> Result<NewProduct, E> + Send + Sync,
    ) -> Result<Result<Option<Arc<Product>>, E>, StoreError> {
        let editor = self.editor()?;
        for attempt in 0.. {
            let Some(product) = self.delivery.product(id).await? else { return Ok(Ok(None)) };
            let revised = match revise(&product) {
                Ok(revised) => revised,
                Err(error) => return Ok(Err(error)),
            };
            match editor.update_product(id, revised, Some(product.facts()), self.edit()).await {
                // Try again. The product may have been read from an outdated cache, which the store refreshes after the
                // conflict.
                Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => {}
                updated => {
                    self.delivery.retry_events(None, None).await;
                    return updated.map(Ok);
                }
            }
        }
        Err(StoreError::Conflict { source: None })
    }

    /// Archives a product: it is no longer listed or sold, but keys that were sold before can still fetch it. Archiving
    /// it again changes nothing. Returns `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the host application manages products itself; another [`StoreError`] if the
    /// change may not have been saved.
    pub async fn archive_product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        self.editor()?.set_archived(id, true, self.edit()).await
    }

    /// Restores an archived product: it is listed and sold again. Restoring a product that is not archived changes
    /// nothing. Then retries platform events that wait for the seller, because they may have waited for this product.
    /// Returns `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// As for [`archive_product`](Self::archive_product).
    pub async fn restore_product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        let restored = self.editor()?.set_archived(id, false, self.edit()).await?;
        self.delivery.retry_events(None, None).await;
        Ok(restored)
    }

    /// Adds a post.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the service has no store for posts; another [`StoreError`] if the post may not
    /// have been added.
    pub async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.posts()?.add_post(post, self.edit()).await
    }

    /// Adds a post. If the newest post is the same, apart from its time, returns that post instead. A form that is
    /// submitted twice therefore adds only one post, unless it reaches two servers at the same moment.
    #[cfg(feature = "pages")]
    pub(crate) async fn add_post_once(&self, post: NewPost) -> Result<Post, StoreError> {
        let (delivery, actor) = (self.delivery.clone(), self.actor.clone());
        let added = async move {
            let desk = delivery.desk(&actor);
            // The clock of the server that added the newest post may be ahead.
            let until = delivery.inner.clock.now() + chrono::TimeDelta::minutes(1);
            let query = crate::store::PostQuery { category: None, until, before: None, limit: 1 };
            let newest = desk.posts()?.posts(&query).await?;
            let is_same = |newest: &&Post| *newest.facts() == post.clone().published_at(newest.published_at());
            match newest.first().filter(is_same) {
                Some(newest) => Ok(newest.clone()),
                None => desk.add_post(post).await,
            }
        };
        self.delivery.inner.add_in_turn(added).await
    }

    /// Returns the post with this number, published or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the service has no store for posts; another [`StoreError`] if the post cannot be
    /// read.
    pub async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        self.posts()?.post(id).await
    }

    /// Replaces all fields of a post; returns `None` if there is no such post.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the service has no store for posts; another [`StoreError`] if the change
    /// may not have been saved.
    pub async fn update_post(&self, id: PostId, post: NewPost) -> Result<Option<Post>, StoreError> {
        self.posts()?.update_post(id, post, None, self.edit()).await
    }

    /// Changes a post, as [`revise_product`](Self::revise_product) changes a product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the service has no store for posts; another [`StoreError`] if the change
    /// may not have been saved. The inner error is the one that `revise` returned.
    pub async fn revise_post<E>(
        &self,
        id: PostId,
        revise: impl Fn(&Post) -> Result<NewPost, E> + Send + Sync,
    ) -> Result<Result<Option<Post>, E>, StoreError> {
        let posts = self.posts()?;
        for attempt in 0.. {
            let Some(post) = posts.post(id).await? else { return Ok(Ok(None)) };
            let revised = match revise(&post) {
                Ok(revised) => revised,
                Err(error) => return Ok(Err(error)),
            };
            match posts.update_post(id, revised, Some(post.facts()), self.edit()).await {
                Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => {}
                updated => return updated.map(Ok),
            }
        }
        Err(StoreError::Conflict { source: None })
    }

    /// Deletes a post. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the service has no store for posts; another [`StoreError`] if the change
    /// may not have been saved.
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
