//! Products and posts: adding and reading them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::PgPool;
use sqlx::postgres::PgConnection;

use super::error::store_error;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::rows::{self, parsed};
use crate::store::statements::{ADD_POST, ADD_PRODUCT, POSTS, POSTS_OF_CATEGORY, PRODUCT, PRODUCTS, limit};
use crate::store::{PostQuery, StoreError};
use crate::terms::{UseLimit, Validity};

/// Bytes of product content held at most.
const CONTENT: usize = 64 << 20;

/// Products that were read: they never change, whichever server added them.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    products: HashMap<ProductId, Arc<Product>>,
    bytes: usize,
}

impl Shelf {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a product, and answers the one that is kept: of two that were read at once, one.
    fn keep(&self, product: Product) -> Arc<Product> {
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
        let product = Arc::new(product);
        held.products.insert(product.id(), product.clone());
        product
    }
}

pub(super) async fn add_product(session: &mut PgConnection, facts: &NewProduct) -> Result<Arc<Product>, StoreError> {
    // A product of any number, to read the facts from.
    let draft = Product::new(rows::product_id(1)?, facts.clone());
    let id: i64 = sqlx::query_scalar(ADD_PRODUCT)
        .bind(draft.name())
        .bind(draft.description())
        .bind(draft.kind())
        .bind(draft.content())
        .bind(draft.price().to_string())
        .bind(draft.terms().validity.map(Validity::as_days))
        .bind(draft.terms().limit.map(UseLimit::as_count))
        .fetch_one(session)
        .await
        .map_err(store_error)?;
    Ok(Arc::new(Product::new(rows::product_id(id)?, facts.clone())))
}

pub(super) async fn add_post(session: &mut PgConnection, facts: &NewPost) -> Result<Post, StoreError> {
    let number = |id| parsed(PostId::new(id), "post number");
    let draft = Post::new(number(1)?, facts.clone());
    let id: i64 = sqlx::query_scalar(ADD_POST)
        .bind(draft.title())
        .bind(draft.category().as_str())
        .bind(draft.content())
        .bind(draft.published_at().timestamp())
        .fetch_one(session)
        .await
        .map_err(store_error)?;
    Ok(Post::new(number(id)?, facts.clone()))
}

pub(super) async fn product(pool: PgPool, shelf: &Shelf, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
    let held = shelf.held().products.get(&id).cloned();
    if held.is_some() {
        return Ok(held);
    }
    let read = super::detached(async move {
        let row = sqlx::query(PRODUCT).bind(id.get()).fetch_optional(&pool).await.map_err(store_error)?;
        row.map(|row| rows::product(&row)).transpose()
    });
    Ok(read.await?.map(|product| shelf.keep(product)))
}

/// Read each time: another server may have added one a moment ago.
pub(super) async fn products(pool: PgPool) -> Result<Arc<Vec<Listing>>, StoreError> {
    super::detached(async move {
        let found = sqlx::query(PRODUCTS).fetch_all(&pool).await.map_err(store_error)?;
        found.iter().map(rows::listing).collect::<Result<_, _>>().map(Arc::new)
    })
    .await
}

pub(super) async fn posts(pool: PgPool, query: PostQuery) -> Result<Vec<Post>, StoreError> {
    super::detached(async move {
        let statement = sqlx::query(if query.category.is_some() { POSTS_OF_CATEGORY } else { POSTS });
        let mut statement = statement.bind(query.until.timestamp()).bind(limit(query.limit));
        if let Some(category) = &query.category {
            statement = statement.bind(category.as_str().to_owned());
        }
        let found = statement.fetch_all(&pool).await.map_err(store_error)?;
        found.iter().map(rows::post).collect()
    })
    .await
}
