//! Products and posts.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Files, StoreError};
use crate::HostRef;
use crate::ledger::Edit;
use crate::order::Source;
use crate::post::{Category, NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId, RefName};

/// The catalog of products. The [module documentation](super) explains how to implement it.
///
/// # To ensure correctness
///
/// * Never give the number of a deleted product to another product: keys refer to their product by this number for
///   ever.
/// * Serve a change on all servers within a second.
#[async_trait]
pub trait Catalog: Debug + Send + Sync + 'static {
    /// Returns the product with this number, archived or not; `None` if there is no such product. As long as the
    /// product does not change, calls should return the same `Arc` where possible, because the [`Product`] in it caches
    /// the encoded response.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError>;

    /// Returns all products that are not archived, in ascending order of their numbers, without their content. As long
    /// as nothing changes, calls should return the same `Arc` where possible, so that the list is encoded only once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError>;
}

/// A catalog that can be edited. All servers that share the catalog serve a change within a second. If a method returns
/// [`StoreError::Unknown`], the change may have been saved nevertheless.
///
/// # To ensure correctness
///
/// * Write a change and its audit entry in one commit.
/// * Refuse a name that another product already has, even if two calls add the same name at once.
#[async_trait]
pub trait CatalogEditor: Catalog + ProductNames {
    /// Adds a product durably and gives it a new number.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if another product already has one of this product's names: its [`HostRef`], or a name
    /// that a platform has for it. Another [`StoreError`] if nothing was added.
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError>;

    /// Returns the product to which the host application gave this [name](crate::HostRef), archived or not; `None` if
    /// no product has this name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError>;

    /// Returns the archived products, in ascending order of their numbers, without their content.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn archived_products(&self) -> Result<Vec<Listing>, StoreError>;

    /// Replaces all [facts](Product::facts) of a product, durably. An archived product stays archived. If `was` is
    /// given, the product is changed only if its facts still equal `was`. Returns `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the facts differ from `was`. [`StoreError::Refused`] if another product already has
    /// one of the new names. Another [`StoreError`] if nothing was changed.
    async fn update_product(
        &self,
        id: ProductId,
        product: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError>;

    /// Archives a product, or restores it if `archived` is false, durably. An archived product is no longer listed or
    /// sold, but keys that were already sold can still fetch it. If the product is archived or restored already, this
    /// changes nothing. Returns `None` if there is no such product.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn set_archived(&self, id: ProductId, archived: bool, edit: Edit)
    -> Result<Option<Arc<Product>>, StoreError>;

    /// Returns the part of the catalog that adds products inside transactions of the host application; `None` if the
    /// catalog does not have this part.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn in_host_transactions(&self) -> Option<&dyn super::HostTransactions> {
        None
    }

    /// Returns the part of the catalog that stores the database rows (not the bytes) of products' files; `None` if the
    /// catalog stores no files.
    fn files(&self) -> Option<&dyn Files> {
        None
    }
}

/// The names that commerce platforms have for products.
///
/// # To ensure correctness
///
/// * Return the same product for a name on every server. A new name must be found at once, because a sale may follow
///   within a second.
#[async_trait]
pub trait ProductNames: Debug + Send + Sync + 'static {
    /// Returns the number of the product that the platform `source` calls `name`, archived or not; `None` if no product
    /// has this name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError>;
}

/// Posts: news about products. If a method returns [`StoreError::Unknown`], its change may have been saved
/// nevertheless.
///
/// # To ensure correctness
///
/// * Write a change and its audit entry in one commit.
#[async_trait]
pub trait Posts: Debug + Send + Sync + 'static {
    /// Returns the posts that match `query`, newest first. The contents in a list have at most 1 MiB in total: the list
    /// ends before the first post that would exceed this. If two calls find the same posts, unchanged, they should
    /// return the same `Arc` where possible, even if the queries differ, so that the list is encoded only once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the posts cannot be read.
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError>;

    /// Adds a post durably and gives it a new number.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError>;

    /// Returns the post with this number, published or not; `None` if there is no such post.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the posts cannot be read.
    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError>;

    /// Replaces all [facts](Post::facts) of a post, durably. If `was` is given, the post is changed only if its facts
    /// still equal `was`. Returns `None` if there is no such post.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the facts differ from `was`. Another [`StoreError`] if nothing was changed.
    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError>;

    /// Deletes a post, durably. Returns whether the post existed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError>;
}

/// The conditions of a search for posts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct PostQuery {
    /// Only posts of this category; posts of every category if `None`.
    pub category: Option<Category>,
    /// Only posts published at or before this time.
    pub until: DateTime<Utc>,
    /// Of the posts published at exactly `until`, only those with a lower number than this; all of them if `None`. To
    /// continue a list, pass the time and the number of its last post.
    pub before: Option<PostId>,
    /// The maximum number of posts to return.
    pub limit: usize,
}

/// Returns [`StoreError::Conflict`] if the current facts `is` differ from the expected facts `was`. Succeeds if either
/// is `None`.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn unchanged<T: PartialEq>(is: Option<&T>, was: Option<&T>) -> Result<(), StoreError> {
    let is_other = is.zip(was).is_some_and(|(is, was)| is != was);
    if is_other { Err(StoreError::Conflict { source: None }) } else { Ok(()) }
}

/// The maximum total length of the contents of the posts in one list, in bytes: 1 MiB. A list ends before the first
/// post whose content would make the total exceed this maximum.
const MOST_CONTENT: usize = 1 << 20;

/// Returns how many of the first posts fit into a list, given the lengths of their contents in bytes.
pub(crate) fn fitting(lengths: impl IntoIterator<Item = usize>) -> usize {
    let sums = lengths.into_iter().scan(0_usize, |sum, length| {
        *sum = sum.saturating_add(length);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= MOST_CONTENT).count()
}
