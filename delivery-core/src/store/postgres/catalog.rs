//! Products and posts: adding and reading them.

use std::sync::Arc;

use sqlx::PgPool;
use sqlx::postgres::PgConnection;

use super::error::store_error;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::lists::PostLists;
use crate::store::rows::{self, parsed};
use crate::store::shelf::Shelf;
use crate::store::statements::{
    ADD_POST, ADD_PRODUCT, POSTS, POSTS_OF_CATEGORY, PRODUCT, PRODUCTS, bind_post, bind_product, limit, listed,
};
use crate::store::{PostQuery, StoreError};

pub(super) async fn add_product(session: &mut PgConnection, facts: &NewProduct) -> Result<Arc<Product>, StoreError> {
    // A product of any number, to read the facts from.
    let draft = Product::new(rows::product_id(1)?, facts.clone());
    let add = bind_product!(sqlx::query_scalar(ADD_PRODUCT), draft);
    let id: i64 = add.fetch_one(session).await.map_err(store_error)?;
    Ok(Arc::new(Product::new(rows::product_id(id)?, facts.clone())))
}

pub(super) async fn add_post(session: &mut PgConnection, facts: &NewPost) -> Result<Post, StoreError> {
    let number = |id| parsed(PostId::new(id), "post number");
    let draft = Post::new(number(1)?, facts.clone());
    let add = bind_post!(sqlx::query_scalar(ADD_POST), draft);
    let id: i64 = add.fetch_one(session).await.map_err(store_error)?;
    Ok(Post::new(number(id)?, facts.clone()))
}

pub(super) async fn product(pool: PgPool, shelf: &Shelf, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
    let held = shelf.get(id);
    if held.is_some() {
        return Ok(held);
    }
    let read = super::detached(async move {
        let row = sqlx::query(PRODUCT).bind(id.get()).fetch_optional(&pool).await.map_err(store_error)?;
        row.map(|row| rows::product(&row)).transpose()
    });
    Ok(read.await?.map(|product| shelf.keep(Arc::new(product))))
}

/// Read each time: another server may have added one a moment ago.
pub(super) async fn products(pool: PgPool) -> Result<Arc<Vec<Listing>>, StoreError> {
    super::detached(async move {
        let found = sqlx::query(PRODUCTS).fetch_all(&pool).await.map_err(store_error)?;
        found.iter().map(rows::listing).collect::<Result<_, _>>().map(Arc::new)
    })
    .await
}

pub(super) async fn posts(pool: PgPool, lists: Arc<PostLists>, query: PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
    const CONTENTS: &str = "SELECT id, title, category, content, published_at FROM delivery_post WHERE id = ANY($1) \
                            ORDER BY published_at DESC, id DESC";
    super::detached(async move {
        let statement = sqlx::query(if query.category.is_some() { POSTS_OF_CATEGORY } else { POSTS });
        let mut statement = statement.bind(query.until.timestamp()).bind(limit(query.limit));
        if let Some(category) = &query.category {
            statement = statement.bind(category.as_str().to_owned());
        }
        let ids = listed(&statement.fetch_all(&pool).await.map_err(store_error)?)?;
        if let Some(held) = lists.get(&ids) {
            return Ok(held);
        }
        let contents = sqlx::query(CONTENTS).bind(ids.iter().map(|id| id.get()).collect::<Vec<_>>());
        let found = contents.fetch_all(&pool).await.map_err(store_error)?;
        Ok(lists.keep(found.iter().map(rows::post).collect::<Result<_, _>>()?))
    })
    .await
}
