//! Products: reading and changing them, and the names that platforms have for them.

use std::sync::Arc;

use async_trait::async_trait;

use super::files::with_files;
use super::rows::{self, product_columns};
use super::session::{Database, Patience, Session, Stale, Value, values};
use crate::HostRef;
use crate::ledger::{Action, Edit};
use crate::order::Source;
use crate::product::{Listing, NewProduct, Product, ProductId, RefName};
use crate::store::catalog::unchanged;
use crate::store::{Catalog, CatalogEditor, Files, HostTransactions, ProductNames, StoreError};
use crate::terms::{UseLimit, Validity};

const PRODUCT: &str = concat!("SELECT ", product_columns!(), " FROM delivery_product WHERE id = $1");

const PRODUCT_CALLED: &str = concat!("SELECT ", product_columns!(), " FROM delivery_product WHERE host_ref = $1");

/// Selects the number of the product that platform `$1` calls `$2`.
const PRODUCT_NAMED: &str = "SELECT product FROM delivery_product_ref WHERE source = $1 AND name = $2";

const PRODUCTS: &str = "SELECT id, name, description, kind, price FROM delivery_product WHERE archived = 0 ORDER BY id";

const ARCHIVED_PRODUCTS: &str =
    "SELECT id, name, description, kind, price FROM delivery_product WHERE archived = 1 ORDER BY id";

const ADD_PRODUCT: &str = concat!(
    "INSERT INTO delivery_product (name, description, kind, content, price, days, uses, host_ref, refs, language) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING ",
    product_columns!()
);

const UPDATE_PRODUCT: &str = concat!(
    "UPDATE delivery_product SET name = $1, description = $2, kind = $3, content = $4, price = $5, days = $6, uses = $7, \
        host_ref = $8, refs = $9, language = $10 WHERE id = $11 RETURNING ",
    product_columns!()
);

const SET_ARCHIVED: &str = concat!(
    "UPDATE delivery_product SET archived = $2 WHERE id = $1 AND archived <> $2 RETURNING ",
    product_columns!()
);

#[async_trait]
impl<D: Database> Catalog for D {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        let cache = Database::products(self);
        if let Some(product) = cache.product(id) {
            return Ok(Some(product));
        }
        let version = cache.version();
        let product = self.read(Patience::Usual, move |session| Box::pin(product(session, PRODUCT, id.get().into())));
        // Boxed, so that the future of a call that finds the product in the cache stays small.
        Ok(Box::pin(product).await?.map(|product| cache.keep(Arc::new(product), version)))
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        let cache = Database::products(self);
        if let Some(listing) = cache.listing() {
            return Ok(listing);
        }
        let version = cache.version();
        let found = self.read(Patience::Usual, |session| Box::pin(session.rows(PRODUCTS, Vec::new()))).await?;
        let listing = Arc::new(found.iter().map(rows::listing).collect::<Result<Vec<_>, _>>()?);
        if !self.is_shared() {
            // The list is cached only if no other server changes the database. If other servers change it, the list is
            // read each time, so that it immediately contains what another server has added.
            cache.keep_listing(&listing, version);
        }
        Ok(listing)
    }
}

#[async_trait]
impl<D: Database + HostTransactions> CatalogEditor for D {
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        self.write(Patience::Usual, move |session| Box::pin(async move { add(session, &product, &edit).await })).await
    }

    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        let host_ref = Value::from(host_ref.as_str());
        let found = self.read(Patience::Usual, move |session| Box::pin(product(session, PRODUCT_CALLED, host_ref)));
        Ok(found.await?.map(Arc::new))
    }

    async fn archived_products(&self) -> Result<Vec<Listing>, StoreError> {
        let found = self.read(Patience::Usual, |session| Box::pin(session.rows(ARCHIVED_PRODUCTS, Vec::new()))).await?;
        found.iter().map(rows::listing).collect()
    }

    async fn update_product(
        &self,
        id: ProductId,
        product: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        let was = was.cloned();
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                if let Some(was) = &was {
                    let sql = session.dialect().locking(PRODUCT);
                    let is = self::product(session, &sql, id.get().into()).await?;
                    unchanged(is.as_ref().map(Product::facts), Some(was))?;
                }
                let mut facts = columns(&product)?;
                facts.push(id.get().into());
                change(session, (UPDATE_PRODUCT, facts), Action::ProductUpdated, &edit).await
            })
        })
        .await
    }

    async fn set_archived(
        &self,
        id: ProductId,
        archived: bool,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                let set = (SET_ARCHIVED, values![id.get(), i64::from(archived)]);
                let action = if archived { Action::ProductArchived } else { Action::ProductRestored };
                match change(session, set, action, &edit).await? {
                    Some(changed) => Ok(Some(changed)),
                    // No row was changed: either the product was already in this state, or there is no such product.
                    None => Ok(product(session, PRODUCT, id.get().into()).await?.map(Arc::new)),
                }
            })
        })
        .await
    }

    fn in_host_transactions(&self) -> Option<&dyn HostTransactions> {
        Some(self)
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }
}

#[async_trait]
impl<D: Database> ProductNames for D {
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError> {
        // Read each time: a cached answer would hide a name that another server has just added.
        let wanted = values![source.as_str(), name.as_str()];
        let found = self.read(Patience::Usual, |session| Box::pin(session.row(PRODUCT_NAMED, wanted))).await?;
        let number = found.map(|row| rows::Columns::integer(&row, "product")).transpose()?;
        number.map(rows::product_id).transpose()
    }
}

async fn product(session: &mut Session<'_>, sql: &str, wanted: Value) -> Result<Option<Product>, StoreError> {
    match session.row(sql, vec![wanted]).await? {
        Some(row) => with_files(session, rows::product(&row)?).await.map(Some),
        None => Ok(None),
    }
}

/// Adds a product, with its entry in the audit log.
pub(in crate::store) async fn add(
    session: &mut Session<'_>,
    facts: &NewProduct,
    edit: &Edit,
) -> Result<Arc<Product>, StoreError> {
    let added = change(session, (ADD_PRODUCT, columns(facts)?), Action::ProductAdded, edit).await?;
    added.ok_or(StoreError::corrupt("a product that was added and is not there"))
}

/// Runs a statement that adds or changes a product, and adds an entry to the audit log. If no row was changed, adds no
/// entry and returns `None`. On PostgreSQL, a trigger counts the changes of products, so that other servers notice that
/// their caches are outdated.
async fn change(
    session: &mut Session<'_>,
    (sql, values): (&str, Vec<Value>),
    action: Action,
    edit: &Edit,
) -> Result<Option<Arc<Product>>, StoreError> {
    session.changed(Stale::Products);
    let Some(row) = session.row(sql, values).await? else { return Ok(None) };
    let product = with_files(session, rows::product(&row)?).await?;
    session.log((None, Some(product.id().get())), action, edit).await?;
    Ok(Some(Arc::new(product)))
}

/// Returns the parameters of [`ADD_PRODUCT`], which are also the first ten of [`UPDATE_PRODUCT`].
fn columns(facts: &NewProduct) -> Result<Vec<Value>, StoreError> {
    // The product is made only because `NewProduct` has no methods that read its fields. Its number is arbitrary.
    let product = Product::new(rows::product_id(1)?, facts.clone());
    Ok(values![
        product.name(),
        product.description(),
        product.kind(),
        product.content(),
        product.price().to_string(),
        product.terms().validity.map(Validity::as_days),
        product.terms().limit.map(UseLimit::as_count),
        product.host_ref().map(HostRef::as_str),
        super::inbox::text(product.refs())?,
        product.language().map(crate::Language::as_str),
    ])
}
