//! Products and posts.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;
use crate::HostRef;
use crate::ledger::Edit;
use crate::order::Source;
use crate::post::{Category, NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId, RefName};
use crate::terms::NEVER;

/// The products that are sold. See the [module documentation](super) for how to implement it.
#[async_trait]
pub trait Catalog: Debug + Send + Sync + 'static {
    /// The product with this number, archived or not. The `Arc` must be the same while the product is: it carries the
    /// encoded answer.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError>;

    /// All products that are not archived, by number, without their content. The `Arc` must be the same while nothing changes: the
    /// list is then encoded once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError>;
}

/// A catalog that can be edited. Every server that shares it serves a change within a second. A change and its entry in the
/// audit log are one commit.
#[async_trait]
pub trait CatalogEditor: Catalog + ProductNames {
    /// Adds a product durably under a number of its own.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if another product has the host's name for it, or a platform's; another [`StoreError`] if nothing
    /// was added.
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError>;

    /// Adds a product as [`add_product`](Self::add_product), unless one that is not archived says the same in everything: that
    /// one is returned then. A form that is sent twice adds one. A service does not call this twice at a time; a store that
    /// several servers share has them take turns.
    ///
    /// # Errors
    ///
    /// As [`add_product`](Self::add_product).
    async fn add_product_once(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        for listed in self.products().await?.iter().filter(|listed| product.is_called(&listed.name)) {
            let found = self.product(listed.id).await?;
            if let Some(found) = found.filter(|found| *found.facts() == product) {
                return Ok(found);
            }
        }
        self.add_product(product, edit).await
    }

    /// The product that the host [calls](crate::HostRef) so, archived or not.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError>;

    /// Replaces what a product says, durably; `None` if there is no such product. It stays archived if it is. If `was` is given,
    /// the product must still say that.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if it says something else than `was`; [`StoreError::Refused`] if another product has a name of it;
    /// another [`StoreError`] if nothing was changed.
    async fn update_product(
        &self,
        id: ProductId,
        product: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError>;

    /// Archives a product, durably: it is neither listed nor sold any more, and keys sold before still fetch it. Archiving it
    /// again changes nothing. `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn archive_product(&self, id: ProductId, edit: Edit) -> Result<Option<Arc<Product>>, StoreError>;
}

/// What commerce platforms call the products.
#[async_trait]
pub trait ProductNames: Debug + Send + Sync + 'static {
    /// The number of the product that the platform `source` calls `name`, whether it is archived or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nobody can tell.
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError>;
}

/// Posts that announce something.
#[async_trait]
pub trait Posts: Debug + Send + Sync + 'static {
    /// Posts that match `query`, newest first, as far as they hold 1 MiB of content together. The `Arc` must be the same while
    /// the same posts are in the list, whatever the query: the list is then encoded once.
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
    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError>;

    /// Adds a post as [`add_post`](Self::add_post), unless the newest one says the same but for its time: that one is returned
    /// then. Servers take turns as with [`add_product_once`](CatalogEditor::add_product_once).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    async fn add_post_once(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        let newest = self.posts(&PostQuery { category: None, until: NEVER, limit: 1 }).await?;
        match newest.first().filter(|newest| are_alike(newest, &post)) {
            Some(newest) => Ok(newest.clone()),
            None => self.add_post(post, edit).await,
        }
    }

    /// The post with this number, published or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the posts cannot be read.
    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError>;

    /// Replaces what a post says, durably; `None` if there is no such post. If `was` is given, the post must still say that.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if it says something else than `was`; another [`StoreError`] if nothing was changed.
    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError>;

    /// Deletes a post, durably. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError>;
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

/// Whether two posts say the same but for their times.
pub(super) fn are_alike(post: &Post, other: &NewPost) -> bool {
    *post.facts() == other.clone().published_at(post.published_at())
}

/// Refuses if there is something else than what `was` there.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn unchanged<T: PartialEq>(is: Option<&T>, was: Option<&T>) -> Result<(), StoreError> {
    let is_other = is.zip(was).is_some_and(|(is, was)| is != was);
    if is_other { Err(StoreError::Conflict { source: None }) } else { Ok(()) }
}

/// The content that one list has at most, in bytes: 1 MiB. What comes after that is left out.
pub(crate) const MOST_CONTENT: usize = 1 << 20;
/// How many of the first posts, whose contents have these lengths, fit into a list.
pub(crate) fn fitting(lengths: impl IntoIterator<Item = usize>) -> usize {
    let sums = lengths.into_iter().scan(0_usize, |sum, length| {
        *sum = sum.saturating_add(length);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= MOST_CONTENT).count()
}

#[cfg(test)]
mod tests {
    use super::{MOST_CONTENT, fitting};

    #[test]
    fn a_list_holds_a_mebibyte_of_content() {
        for (lengths, count) in [
            (vec![], 0),
            (vec![MOST_CONTENT], 1),
            (vec![MOST_CONTENT, 1], 1),
            (vec![500_000; 100], 2),
            (vec![0, MOST_CONTENT - 1, 1, 0, 1], 4),
            (vec![10_000; 100], 100),
        ] {
            assert_eq!(fitting(lengths), count);
        }
    }
}
