//! Products and posts: reading and changing them.

use std::sync::Arc;

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Connection, Sqlite, SqlitePool};

use super::cache::Cache;
use super::error::store_error;
use super::json::json;
use super::writer::Writer;
use crate::HostRef;
use crate::order::Source;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId, RefName};
use crate::store::catalog::unchanged;
use crate::store::sql::rows;
use crate::store::sql::statements::{
    ADD_POST, ADD_PRODUCT, ARCHIVE_PRODUCT, DELETE_POST, LOG, POST, POSTS, POSTS_OF_CATEGORY, PRODUCT, PRODUCT_CALLED,
    PRODUCT_NAMED, PRODUCTS, UPDATE_POST, UPDATE_PRODUCT, bind_log, bind_post, bind_product, limit, listed,
};
use crate::store::{Action, Edit, PostQuery, StoreError};

pub(super) async fn add_product(
    writer: &mut Writer,
    facts: &NewProduct,
    edit: &Edit,
) -> Result<Arc<Product>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let added =
        change(writer, (bind_product!(sqlx::query(ADD_PRODUCT), draft), None), Action::ProductAdded, edit).await?;
    added.ok_or(StoreError::corrupt("a product that was added and is not there"))
}

pub(super) async fn update_product(
    writer: &mut Writer,
    id: ProductId,
    (facts, was): (&NewProduct, Option<&NewProduct>),
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let update = bind_product!(sqlx::query(UPDATE_PRODUCT), draft).bind(id.get());
    change(writer, (update, was.map(|was| (id, was))), Action::ProductUpdated, edit).await
}

pub(super) async fn archive_product(
    writer: &mut Writer,
    id: ProductId,
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    let archived =
        change(writer, (sqlx::query(ARCHIVE_PRODUCT).bind(id.get()), None), Action::ProductArchived, edit).await?;
    if archived.is_some() {
        return Ok(archived);
    }
    // Or it was archived before.
    let row = sqlx::query(PRODUCT).bind(id.get()).fetch_optional(&mut writer.connection).await.map_err(store_error)?;
    row.map(|row| rows::product(&row).map(Arc::new)).transpose()
}

/// Changes a product, and enters that into the audit log.
async fn change(
    writer: &mut Writer,
    (statement, was): (Query<'_, Sqlite, SqliteArguments>, Option<(ProductId, &NewProduct)>),
    action: Action,
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    let number = writer.next_number().await?;
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    if let Some((id, was)) = was {
        let row = sqlx::query(PRODUCT).bind(id.get()).fetch_optional(&mut *transaction).await.map_err(store_error)?;
        let is = row.map(|row| rows::product(&row)).transpose()?;
        unchanged(is.as_ref().map(Product::facts), Some(was))?;
    }
    let row = statement.fetch_optional(&mut *transaction).await.map_err(store_error)?;
    let product = row.map(|row| rows::product(&row).map(Arc::new)).transpose()?;
    if let Some(product) = &product {
        let log = bind_log!(sqlx::query(LOG), number, (None, Some(product.id().get())), action, edit);
        log.execute(&mut *transaction).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)?;
    writer.cache.products.clear();
    Ok(product)
}

pub(super) async fn add_post(writer: &mut Writer, facts: &NewPost, edit: &Edit) -> Result<Post, StoreError> {
    let draft = rows::draft_post(facts)?;
    let added = change_post(writer, (bind_post!(sqlx::query(ADD_POST), draft), None), Action::PostAdded, edit).await?;
    added.ok_or(StoreError::corrupt("a post that was added and is not there"))
}

pub(super) async fn update_post(
    writer: &mut Writer,
    id: PostId,
    (facts, was): (&NewPost, Option<&NewPost>),
    edit: &Edit,
) -> Result<Option<Post>, StoreError> {
    let draft = rows::draft_post(facts)?;
    let update = bind_post!(sqlx::query(UPDATE_POST), draft).bind(id.get());
    change_post(writer, (update, was.map(|was| (id, was))), Action::PostUpdated, edit).await
}

pub(super) async fn delete_post(writer: &mut Writer, id: PostId, edit: &Edit) -> Result<bool, StoreError> {
    let delete = sqlx::query(DELETE_POST).bind(id.get());
    Ok(change_post(writer, (delete, None), Action::PostDeleted, edit).await?.is_some())
}

/// Changes a post, and enters that into the audit log.
async fn change_post(
    writer: &mut Writer,
    (statement, was): (Query<'_, Sqlite, SqliteArguments>, Option<(PostId, &NewPost)>),
    action: Action,
    edit: &Edit,
) -> Result<Option<Post>, StoreError> {
    let number = writer.next_number().await?;
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    if let Some((id, was)) = was {
        let row = sqlx::query(POST).bind(id.get()).fetch_optional(&mut *transaction).await.map_err(store_error)?;
        let is = row.map(|row| rows::post(&row)).transpose()?;
        unchanged(is.as_ref().map(Post::facts), Some(was))?;
    }
    let row = statement.fetch_optional(&mut *transaction).await.map_err(store_error)?;
    let post = row.map(|row| rows::post(&row)).transpose()?;
    if let Some(post) = &post {
        let edit = Edit { detail: Some(format!("post {}", post.id().get())), ..edit.clone() };
        let log = bind_log!(sqlx::query(LOG), number, (None, None), action, edit);
        log.execute(&mut *transaction).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(post)
}

pub(super) async fn post(readers: &SqlitePool, id: PostId) -> Result<Option<Post>, StoreError> {
    let row = sqlx::query(POST).bind(id.get()).fetch_optional(readers).await.map_err(store_error)?;
    row.map(|row| rows::post(&row)).transpose()
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

pub(super) async fn product_named(
    readers: &SqlitePool,
    cache: &Cache,
    source: &Source,
    name: &RefName,
) -> Result<Option<ProductId>, StoreError> {
    if let Some(product) = cache.products.named(source, name) {
        return Ok(product);
    }
    let version = cache.products.version();
    let find = sqlx::query_scalar(PRODUCT_NAMED).bind(source.as_str()).bind(name.as_str());
    let product = find.fetch_optional(readers).await.map_err(store_error)?.map(rows::product_id).transpose()?;
    cache.products.keep_name(source, name, product, version);
    Ok(product)
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
    let contents = sqlx::query(CONTENTS).bind(json(&ids.iter().map(|(id, _)| id.get()).collect::<Vec<_>>())?);
    let found = contents.fetch_all(readers).await.map_err(store_error)?;
    Ok(cache.posts.keep(ids, found.iter().map(rows::post).collect::<Result<_, _>>()?))
}
