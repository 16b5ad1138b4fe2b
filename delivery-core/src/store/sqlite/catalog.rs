//! Products and posts: reading and changing them.

use std::sync::Arc;

use sqlx::SqlitePool;

use super::cache::Cache;
use super::error::store_error;
use super::json::json;
use super::writer::Writer;
use crate::HostRef;
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::sql::rows;
use crate::store::sql::statements::{
    ADD_POST, ADD_PRODUCT, ARCHIVE_PRODUCT, POSTS, POSTS_OF_CATEGORY, PRODUCT, PRODUCT_CALLED, PRODUCTS,
    UPDATE_PRODUCT, bind_post, bind_product, limit, listed,
};
use crate::store::{PostQuery, StoreError};

pub(super) async fn add_product(writer: &mut Writer, facts: &NewProduct) -> Result<Arc<Product>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let add = bind_product!(sqlx::query(ADD_PRODUCT), draft);
    let row = add.fetch_one(&mut writer.connection).await.map_err(store_error)?;
    writer.cache.products.clear();
    rows::product(&row).map(Arc::new)
}

pub(super) async fn update_product(
    writer: &mut Writer,
    id: ProductId,
    facts: &NewProduct,
) -> Result<Option<Arc<Product>>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let update = bind_product!(sqlx::query(UPDATE_PRODUCT), draft).bind(id.get());
    let row = update.fetch_optional(&mut writer.connection).await.map_err(store_error)?;
    writer.cache.products.clear();
    row.map(|row| rows::product(&row).map(Arc::new)).transpose()
}

pub(super) async fn archive_product(writer: &mut Writer, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
    let archive = sqlx::query(ARCHIVE_PRODUCT).bind(id.get());
    let row = archive.fetch_optional(&mut writer.connection).await.map_err(store_error)?;
    writer.cache.products.clear();
    row.map(|row| rows::product(&row).map(Arc::new)).transpose()
}

pub(super) async fn add_post(writer: &mut Writer, facts: &NewPost) -> Result<Post, StoreError> {
    let draft = rows::draft_post(facts)?;
    let add = bind_post!(sqlx::query(ADD_POST), draft);
    rows::post(&add.fetch_one(&mut writer.connection).await.map_err(store_error)?)
}

pub(super) async fn product_called(
    readers: &SqlitePool,
    host_ref: &HostRef,
) -> Result<Option<Arc<Product>>, StoreError> {
    let row = sqlx::query(PRODUCT_CALLED).bind(host_ref.as_str()).fetch_optional(readers).await.map_err(store_error)?;
    row.map(|row| rows::product(&row).map(Arc::new)).transpose()
}

pub(super) async fn product(
    readers: &SqlitePool,
    cache: &Cache,
    id: ProductId,
) -> Result<Option<Arc<Product>>, StoreError> {
    if let Some(product) = cache.products.product(id) {
        return Ok(Some(product));
    }
    let version = cache.products.version();
    let row = sqlx::query(PRODUCT).bind(id.get()).fetch_optional(readers).await.map_err(store_error)?;
    row.map(|row| rows::product(&row).map(|product| cache.products.keep(Arc::new(product), version))).transpose()
}

pub(super) async fn products(readers: &SqlitePool, cache: &Cache) -> Result<Arc<Vec<Listing>>, StoreError> {
    if let Some(listing) = cache.products.listing() {
        return Ok(listing);
    }
    let version = cache.products.version();
    let found = sqlx::query(PRODUCTS).fetch_all(readers).await.map_err(store_error)?;
    let listing = Arc::new(found.iter().map(rows::listing).collect::<Result<Vec<_>, _>>()?);
    cache.products.keep_listing(&listing, version);
    Ok(listing)
}

pub(super) async fn posts(
    readers: &SqlitePool,
    cache: &Cache,
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
    if let Some(held) = cache.posts.get(&ids) {
        return Ok(held);
    }
    let contents = sqlx::query(CONTENTS).bind(json(&ids.iter().map(|id| id.get()).collect::<Vec<_>>())?);
    let found = contents.fetch_all(readers).await.map_err(store_error)?;
    Ok(cache.posts.keep(found.iter().map(rows::post).collect::<Result<_, _>>()?))
}
