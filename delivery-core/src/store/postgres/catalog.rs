//! Products and posts: reading and changing them, and noticing what other servers change.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgRow;
use tokio::time::timeout;

use super::connect::{ACQUIRE, Sessions};
use super::detached;
use super::error::store_error;
use super::session::Session;
use crate::HostRef;
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::cache::{PostCache, ProductCache};
use crate::store::sql::rows;
use crate::store::sql::statements::{
    ADD_POST, ADD_PRODUCT, ARCHIVE_PRODUCT, POSTS, POSTS_OF_CATEGORY, PRODUCT, PRODUCT_CALLED, PRODUCTS,
    UPDATE_PRODUCT, bind_post, bind_product, limit, listed,
};
use crate::store::{PostQuery, StoreError};

/// How often to look whether another server has changed a product: the promise is a second.
const WATCH: Duration = Duration::from_millis(500);

pub(super) async fn add_product(session: &mut Session<'_>, facts: &NewProduct) -> Result<Arc<Product>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let added = change(session, bind_product!(session.query(ADD_PRODUCT), draft)).await?;
    added.ok_or(StoreError::corrupt("a product that was added and is not there"))
}

pub(super) async fn update_product(
    session: &mut Session<'_>,
    id: ProductId,
    facts: &NewProduct,
) -> Result<Option<Arc<Product>>, StoreError> {
    let draft = rows::draft_product(facts)?;
    change(session, bind_product!(session.query(UPDATE_PRODUCT), draft).bind(id.get())).await
}

pub(super) async fn archive_product(
    session: &mut Session<'_>,
    id: ProductId,
) -> Result<Option<Arc<Product>>, StoreError> {
    change(session, session.query(ARCHIVE_PRODUCT).bind(id.get())).await
}

/// Changes a product. A trigger counts the change, for the caches of other servers.
async fn change(
    session: &mut Session<'_>,
    statement: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
) -> Result<Option<Arc<Product>>, StoreError> {
    let row: Option<PgRow> = statement.fetch_optional(&mut **session).await.map_err(store_error)?;
    row.map(|row| rows::product(&row).map(Arc::new)).transpose()
}

pub(super) async fn add_post(session: &mut Session<'_>, facts: &NewPost) -> Result<Post, StoreError> {
    let draft = rows::draft_post(facts)?;
    let add = bind_post!(session.query(ADD_POST), draft);
    rows::post(&add.fetch_one(&mut **session).await.map_err(store_error)?)
}

pub(super) async fn product(
    sessions: Sessions,
    cache: &ProductCache,
    id: ProductId,
) -> Result<Option<Arc<Product>>, StoreError> {
    if let Some(product) = cache.product(id) {
        return Ok(Some(product));
    }
    let version = cache.version();
    let read = detached(async move {
        let mut session = sessions.read().await?;
        let found = session.query(PRODUCT).bind(id.get()).fetch_optional(&mut *session).await;
        let row = found.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        row.map(|row| rows::product(&row)).transpose()
    });
    Ok(read.await?.map(|product| cache.keep(Arc::new(product), version)))
}

pub(super) async fn product_called(sessions: Sessions, host_ref: HostRef) -> Result<Option<Arc<Product>>, StoreError> {
    detached(async move {
        let mut session = sessions.read().await?;
        let found = session.query(PRODUCT_CALLED).bind(host_ref.as_str()).fetch_optional(&mut *session).await;
        let row = found.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        row.map(|row| rows::product(&row).map(Arc::new)).transpose()
    })
    .await
}

/// Clears the cache when another server has changed a product. Runs until it is aborted. While the database does not answer,
/// nobody can know of a change, and what is cached is served.
pub(super) async fn watch(sessions: Sessions, cache: Arc<ProductCache>) {
    let mut known: Option<i64> = None;
    loop {
        tokio::time::sleep(WATCH).await;
        let Ok(version) = timeout(ACQUIRE, version(&sessions)).await else { continue };
        // The first look clears too: what was cached before it may be older.
        if let Ok(version) = version
            && known.replace(version) != Some(version)
        {
            cache.clear();
        }
    }
}

async fn version(sessions: &Sessions) -> Result<i64, StoreError> {
    let mut session = sessions.read().await?;
    let version = session.scalar("SELECT version FROM delivery_catalog").fetch_one(&mut *session).await;
    session.finish().await.map_err(store_error)?;
    version.map_err(store_error)
}

/// Reads the list each time: it shows at once what another server has added.
pub(super) async fn products(sessions: Sessions) -> Result<Arc<Vec<Listing>>, StoreError> {
    detached(async move {
        let mut session = sessions.read().await?;
        let found = session.query(PRODUCTS).fetch_all(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        found.iter().map(rows::listing).collect::<Result<_, _>>().map(Arc::new)
    })
    .await
}

pub(super) async fn posts(
    sessions: Sessions,
    lists: Arc<PostCache>,
    query: PostQuery,
) -> Result<Arc<Vec<Post>>, StoreError> {
    const CONTENTS: &str = "SELECT id, title, category, content, published_at FROM delivery_post WHERE id = ANY($1) \
                            ORDER BY published_at DESC, id DESC";
    detached(async move {
        let mut session = sessions.read().await?;
        let statement = session.query(if query.category.is_some() { POSTS_OF_CATEGORY } else { POSTS });
        let mut statement = statement.bind(query.until.timestamp()).bind(limit(query.limit));
        if let Some(category) = &query.category {
            statement = statement.bind(category.as_str().to_owned());
        }
        let ids = listed(&statement.fetch_all(&mut *session).await.map_err(store_error)?)?;
        if let Some(held) = lists.get(&ids) {
            return Ok(held);
        }
        let contents = session.query(CONTENTS).bind(ids.iter().map(|id| id.get()).collect::<Vec<_>>());
        let found = contents.fetch_all(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        Ok(lists.keep(found.iter().map(rows::post).collect::<Result<_, _>>()?))
    })
    .await
}
