//! Products and posts: adding and reading them.

use std::sync::Arc;

use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::view::View;
use super::write::json;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::lists::PostLists;
use crate::store::rows::{self, parsed};
use crate::store::statements::{
    ADD_POST, ADD_PRODUCT, POSTS, POSTS_OF_CATEGORY, PRODUCT, PRODUCTS, bind_post, bind_product, limit, listed,
};
use crate::store::{PostQuery, StoreError};

pub(super) async fn add_product(
    connection: &mut SqliteConnection,
    facts: &NewProduct,
) -> Result<Arc<Product>, StoreError> {
    // A product of any number, to read the facts from.
    let draft = Product::new(rows::product_id(1)?, facts.clone());
    let add = bind_product!(sqlx::query_scalar(ADD_PRODUCT), draft);
    let id: i64 = add.fetch_one(connection).await.map_err(store_error)?;
    Ok(Arc::new(Product::new(rows::product_id(id)?, facts.clone())))
}

pub(super) async fn add_post(connection: &mut SqliteConnection, facts: &NewPost) -> Result<Post, StoreError> {
    let number = |id| parsed(PostId::new(id), "post number");
    let draft = Post::new(number(1)?, facts.clone());
    let add = bind_post!(sqlx::query_scalar(ADD_POST), draft);
    let id: i64 = add.fetch_one(connection).await.map_err(store_error)?;
    Ok(Post::new(number(id)?, facts.clone()))
}

/// A product, from the view or, the first time, from its row.
pub(super) async fn product(
    readers: &SqlitePool,
    view: &View,
    id: ProductId,
) -> Result<Option<Arc<Product>>, StoreError> {
    if let Some(product) = view.shelf.get(id) {
        return Ok(Some(product));
    }
    let row = sqlx::query(PRODUCT).bind(id.get()).fetch_optional(readers).await.map_err(store_error)?;
    row.map(|row| rows::product(&row).map(|product| view.shelf.keep(Arc::new(product)))).transpose()
}

/// The list of products, kept until one is added.
pub(super) async fn products(readers: &SqlitePool, view: &View) -> Result<Arc<Vec<Listing>>, StoreError> {
    let additions = match view.listing() {
        Ok(listing) => return Ok(listing),
        Err(additions) => additions,
    };
    let found = sqlx::query(PRODUCTS).fetch_all(readers).await.map_err(store_error)?;
    let listing = Arc::new(found.iter().map(rows::listing).collect::<Result<Vec<_>, _>>()?);
    view.keep_listing(&listing, additions);
    Ok(listing)
}

pub(super) async fn posts(
    readers: &SqlitePool,
    lists: &PostLists,
    query: &PostQuery,
) -> Result<Arc<Vec<Post>>, StoreError> {
    const CONTENTS: &str = "SELECT p.id, title, category, content, published_at FROM json_each(?) j \
                            JOIN delivery_post p ON p.id = j.value ORDER BY published_at DESC, p.id DESC";
    let statement = sqlx::query(if query.category.is_some() { POSTS_OF_CATEGORY } else { POSTS });
    let mut statement = statement.bind(query.until.timestamp()).bind(limit(query.limit));
    if let Some(category) = &query.category {
        statement = statement.bind(category.as_str());
    }
    let ids = listed(&statement.fetch_all(readers).await.map_err(store_error)?)?;
    if let Some(held) = lists.get(&ids) {
        return Ok(held);
    }
    let contents = sqlx::query(CONTENTS).bind(json(&ids.iter().map(|id| id.get()).collect::<Vec<_>>())?);
    let found = contents.fetch_all(readers).await.map_err(store_error)?;
    Ok(lists.keep(found.iter().map(rows::post).collect::<Result<_, _>>()?))
}
