//! Products: reading and changing them, and noticing what other servers change.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, Postgres};
use tokio::time::timeout;

use super::audit::log;
use super::connect::{ACQUIRE, Sessions};
use super::error::store_error;
use super::session::Session;
use super::{PostgresStore, detached};
use crate::HostRef;
use crate::order::Source;
use crate::product::{Listing, NewProduct, Product, ProductId, RefName};
use crate::store::cache::ProductCache;
use crate::store::catalog::unchanged;
use crate::store::sql::rows;
use crate::store::sql::statements::{
    ADD_PRODUCT, ARCHIVE_PRODUCT, PRODUCT, PRODUCT_CALLED, PRODUCT_NAMED, PRODUCTS, UPDATE_PRODUCT, bind_product,
};
use crate::store::{Action, Catalog, CatalogEditor, Edit, ProductNames, StoreError};

/// How often to look whether another server has changed a product: the promise is a second.
const WATCH: Duration = Duration::from_millis(500);

async fn add_product(session: &mut Session<'_>, facts: &NewProduct, edit: &Edit) -> Result<Arc<Product>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let add = bind_product!(session.query(ADD_PRODUCT), draft);
    let added = change(session, (add, None), Action::ProductAdded, edit).await?;
    added.ok_or(StoreError::corrupt("a product that was added and is not there"))
}

/// Who adds something once holds this row: servers take turns, and each sees what the one before has added.
pub(super) const TURN: &str = "SET LOCAL lock_timeout = '3s'; SELECT version FROM delivery_catalog FOR UPDATE";

async fn add_product_once(
    session: &mut Session<'_>,
    facts: &NewProduct,
    edit: &Edit,
) -> Result<Arc<Product>, StoreError> {
    const CALLED: &str = concat!(
        "SELECT ",
        rows::product_columns!(),
        " FROM delivery_product WHERE name = $1 AND archived = 0 ORDER BY id"
    );
    let name = rows::draft_product(facts)?.name().to_owned();
    let mut transaction = session.begin().await.map_err(store_error)?;
    transaction.execute(TURN).await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    let found = inside.query(CALLED).bind(name).fetch_all(&mut *inside).await.map_err(store_error)?;
    let found = found.iter().map(rows::product).collect::<Result<Vec<_>, _>>()?;
    let product = match found.into_iter().find(|product| product.facts() == facts) {
        Some(product) => Arc::new(product),
        None => add_product(&mut inside, facts, edit).await?,
    };
    transaction.commit().await.map_err(store_error)?;
    Ok(product)
}

async fn update_product(
    session: &mut Session<'_>,
    id: ProductId,
    (facts, was): (&NewProduct, Option<&NewProduct>),
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    let draft = rows::draft_product(facts)?;
    let update = bind_product!(session.query(UPDATE_PRODUCT), draft).bind(id.get());
    change(session, (update, was.map(|was| (id, was))), Action::ProductUpdated, edit).await
}

async fn archive_product(
    session: &mut Session<'_>,
    id: ProductId,
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    let archive = session.query(ARCHIVE_PRODUCT).bind(id.get());
    let archived = change(session, (archive, None), Action::ProductArchived, edit).await?;
    if archived.is_some() {
        return Ok(archived);
    }
    // Or it was archived before.
    let row = session.query(PRODUCT).bind(id.get()).fetch_optional(&mut **session).await.map_err(store_error)?;
    row.map(|row| rows::product(&row).map(Arc::new)).transpose()
}

pub(super) type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// Changes a product, and enters that into the audit log. A trigger counts the change, for the caches of other servers.
async fn change(
    session: &mut Session<'_>,
    (statement, was): (Statement<'_>, Option<(ProductId, &NewProduct)>),
    action: Action,
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    let mut transaction = session.begin().await.map_err(store_error)?;
    if let Some((id, was)) = was {
        let mut inside = Session::Host(&mut transaction);
        let find = inside.query(AssertSqlSafe(format!("{PRODUCT} FOR UPDATE"))).bind(id.get());
        let row = find.fetch_optional(&mut *inside).await.map_err(store_error)?;
        let is = row.map(|row| rows::product(&row)).transpose()?;
        unchanged(is.as_ref().map(Product::facts), Some(was))?;
    }
    let row: Option<PgRow> = statement.fetch_optional(&mut *transaction).await.map_err(store_error)?;
    let product = row.map(|row| rows::product(&row).map(Arc::new)).transpose()?;
    if let Some(product) = &product {
        log(&mut Session::Host(&mut transaction), (None, Some(product.id().get())), action, edit).await?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(product)
}

async fn product(sessions: Sessions, cache: &ProductCache, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
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

async fn product_named(
    sessions: Sessions,
    cache: &ProductCache,
    source: &Source,
    name: &RefName,
) -> Result<Option<ProductId>, StoreError> {
    if let Some(product) = cache.named(source, name) {
        return Ok(product);
    }
    let version = cache.version();
    let (platform, called) = (source.as_str().to_owned(), name.as_str().to_owned());
    let read = detached(async move {
        let mut session = sessions.read().await?;
        let found =
            session.scalar::<i64>(PRODUCT_NAMED).bind(platform).bind(called).fetch_optional(&mut *session).await;
        let found = found.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        found.map(rows::product_id).transpose()
    });
    let product = read.await?;
    cache.keep_name(source, name, product, version);
    Ok(product)
}

async fn product_called(sessions: Sessions, host_ref: HostRef) -> Result<Option<Arc<Product>>, StoreError> {
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
async fn products(sessions: Sessions) -> Result<Arc<Vec<Listing>>, StoreError> {
    detached(async move {
        let mut session = sessions.read().await?;
        let found = session.query(PRODUCTS).fetch_all(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        found.iter().map(rows::listing).collect::<Result<_, _>>().map(Arc::new)
    })
    .await
}

impl PostgresStore {
    /// Forgets what was cached of products, which were changed or may have been.
    fn cleared<T>(&self, changed: Result<T, StoreError>) -> Result<T, StoreError> {
        self.products.clear();
        changed
    }
}

#[async_trait]
impl Catalog for PostgresStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        product(self.sessions.clone(), &self.products, id).await
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        products(self.sessions.clone()).await
    }
}

#[async_trait]
impl CatalogEditor for PostgresStore {
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        let queue = self.maintenance()?;
        let add = queue.run(move |session| Box::pin(async move { add_product(session, &product, &edit).await }));
        self.cleared(add.await)
    }

    async fn add_product_once(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        let queue = self.maintenance()?;
        let add = queue.run(move |session| Box::pin(async move { add_product_once(session, &product, &edit).await }));
        self.cleared(add.await)
    }

    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        product_called(self.sessions.clone(), host_ref.clone()).await
    }

    async fn update_product(
        &self,
        id: ProductId,
        product: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        let (queue, was) = (self.maintenance()?, was.cloned());
        let update = queue.run(move |session| {
            Box::pin(async move { update_product(session, id, (&product, was.as_ref()), &edit).await })
        });
        self.cleared(update.await)
    }

    async fn archive_product(&self, id: ProductId, edit: Edit) -> Result<Option<Arc<Product>>, StoreError> {
        let queue = self.maintenance()?;
        let archive = queue.run(move |session| Box::pin(async move { archive_product(session, id, &edit).await }));
        self.cleared(archive.await)
    }
}

#[async_trait]
impl ProductNames for PostgresStore {
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError> {
        product_named(self.sessions.clone(), &self.products, source, name).await
    }
}
