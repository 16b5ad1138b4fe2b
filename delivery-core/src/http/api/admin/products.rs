//! The endpoints with which the seller adds, changes, archives and restores products.

use super::refs::refs_of;
use super::{command, terms};
use crate::delivery::Delivery;
use crate::http::Reply;
use crate::http::api::wire;
use crate::http::describe::{
    Body, CONTENT, DAYS_CLEARED, DAYS_FOR_ALL, DESCRIPTION, EXPIRES_DAYS, Field, LANGUAGE, LANGUAGE_KEPT, MAX_USES,
    NAME, NUMBER, PRICE, REFS, TYPE, UNLOCKED, USES_CLEARED, USES_FOR_ALL, shape,
};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::product::{NewProduct, Product, ProductId};
use crate::store::StoreError;
use crate::text::Invalid;

pub(in crate::http) static ADD_PRODUCT: Row = command(
    "/api/admin/product",
    |delivery, seller, fields| Box::pin(add_product(delivery, seller, fields)),
    Docs {
        id: "addProduct",
        summary: "Add a product",
        description: "The product is listed and can be sold at once.",
        body: Some(Body {
            name: "NewProduct",
            about: "A product, and the terms of its keys.",
            fields: &[
                NAME.required(),
                DESCRIPTION,
                TYPE,
                CONTENT.required().about(UNLOCKED),
                PRICE,
                EXPIRES_DAYS.about(DAYS_FOR_ALL),
                MAX_USES.about(USES_FOR_ALL),
                LANGUAGE,
                REFS,
            ],
            example: r##"{"name":"Guide","content":"# Guide","price":9.99}"##,
        }),
        success: shape!(wire::Added<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static UPDATE_PRODUCT: Row = command(
    "/api/admin/product/update",
    |delivery, seller, fields| Box::pin(update_product(delivery, seller, fields)),
    Docs {
        id: "updateProduct",
        summary: "Change a product",
        description: "A field that is left out stays as it is. `null` removes the product's own `expires_days`, \
            `max_uses` or `language`. `refs` replaces all names of the product. Keys that were sold before keep their \
            terms, and fetch the product as it is now. Sales that waited for one of the names are applied.",
        body: Some(Body {
            name: "ProductUpdate",
            about: "The id of a product, and the fields to change.",
            fields: &[
                NUMBER,
                NAME,
                DESCRIPTION.kept(),
                TYPE.kept(),
                CONTENT.about(UNLOCKED),
                PRICE.kept(),
                EXPIRES_DAYS.about(DAYS_CLEARED),
                MAX_USES.about(USES_CLEARED),
                LANGUAGE.about(LANGUAGE_KEPT),
                REFS,
            ],
            example: r#"{"id":1,"price":12.5}"#,
        }),
        success: shape!(wire::Added<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static ARCHIVE_PRODUCT: Row = command(
    "/api/admin/product/archive",
    |delivery, seller, fields| Box::pin(archive(delivery, seller, fields)),
    Docs {
        id: "archiveProduct",
        summary: "Stop selling a product",
        description: "The product is no longer listed or sold. Keys that were sold before can still fetch it. If an \
            order that was paid before is sent again, the answer still has its key.",
        body: Some(Body { name: "TheProduct", about: "A product.", fields: &[NUMBER], example: r#"{"id":1}"# }),
        success: shape!(wire::Added<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static RESTORE_PRODUCT: Row = command(
    "/api/admin/product/restore",
    |delivery, seller, fields| Box::pin(restore(delivery, seller, fields)),
    Docs {
        id: "restoreProduct",
        summary: "Sell an archived product again",
        description: "The product is listed and sold again. Sales that waited for it are applied. A product that is \
            not archived stays as it is.",
        body: Some(Body { name: "TheProduct", about: "A product.", fields: &[NUMBER], example: r#"{"id":1}"# }),
        success: shape!(wire::Added<'_>),
        ..Docs::SELLER
    },
);

async fn add_product(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let checked = |field: Field| move |expected: Invalid| Fault::malformed(field.name, expected);
    let product = NewProduct::new(fields.required_text(NAME)?).map_err(checked(NAME))?;
    let product = product.content(fields.required_text(CONTENT)?).map_err(checked(CONTENT))?;
    let description = fields.text_of(DESCRIPTION)?.unwrap_or_default();
    let mut product = product.description(description).map_err(checked(DESCRIPTION))?;
    if let Some(kind) = fields.text_of(TYPE)? {
        product = product.kind(kind).map_err(checked(TYPE))?;
    }
    let product = product.price(fields.number(PRICE)?.unwrap_or_default()).terms(terms(&fields)?);
    let mut product = product.refs(refs_of(delivery, &fields)?.unwrap_or_default());
    if let Some(language) = fields.parsed(LANGUAGE)? {
        product = product.language(language);
    }
    let has_names = product.has_names();
    let added = delivery.desk(seller.actor()).add_product(product).await.map_err(|error| taken(error, has_names))?;
    Ok(Reply::json(&wire::Added::of(&added)))
}

async fn update_product(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let checked = |field: Field| move |expected: Invalid| Fault::malformed(field.name, expected);
    let id = fields.integer(NUMBER, ProductId::new)?.ok_or_else(|| Fault::missing(NUMBER.name))?;
    // Look up the product first, so that the reply for an unknown product is 404 even if other fields are invalid.
    delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    let refs = refs_of(delivery, &fields)?;
    let revise = |product: &Product| -> Result<_, Fault> {
        let mut facts = product.facts().clone();
        if let Some(name) = fields.text_of(NAME)? {
            facts = facts.name(name).map_err(checked(NAME))?;
        }
        // Unlike most fields, a description may be changed to "".
        if let Some(description) = fields.given_text(DESCRIPTION)? {
            facts = facts.description(description).map_err(checked(DESCRIPTION))?;
        }
        if let Some(content) = fields.text_of(CONTENT)? {
            facts = facts.content(content).map_err(checked(CONTENT))?;
        }
        if let Some(kind) = fields.text_of(TYPE)? {
            facts = facts.kind(kind).map_err(checked(TYPE))?;
        }
        if let Some(price) = fields.number(PRICE)? {
            facts = facts.price(price);
        }
        let (new, old) = (terms(&fields)?, product.terms());
        let validity = new.validity.or(old.validity.filter(|_| !fields.clears(EXPIRES_DAYS)));
        let limit = new.limit.or(old.limit.filter(|_| !fields.clears(MAX_USES)));
        facts = facts.terms(crate::terms::OwnTerms { validity, limit });
        if let Some(refs) = &refs {
            facts = facts.refs(refs.clone());
        }
        if let Some(language) = fields.parsed(LANGUAGE)? {
            facts = facts.language(language);
        } else if fields.clears(LANGUAGE) {
            facts = facts.without_language();
        }
        Ok(facts)
    };
    let updated = delivery.desk(seller.actor()).revise_product(id, revise).await;
    let updated = updated.map_err(|error| taken(error, refs.is_some()))??.ok_or(ApiError::NOT_FOUND)?;
    Ok(Reply::json(&wire::Added::of(&updated)))
}

async fn archive(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let id = fields.integer(NUMBER, ProductId::new)?.ok_or_else(|| Fault::missing(NUMBER.name))?;
    let archived = delivery.desk(seller.actor()).archive_product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    Ok(Reply::json(&wire::Added::of(&archived)))
}

async fn restore(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let id = fields.integer(NUMBER, ProductId::new)?.ok_or_else(|| Fault::missing(NUMBER.name))?;
    let restored = delivery.desk(seller.actor()).restore_product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    Ok(Reply::json(&wire::Added::of(&restored)))
}

/// Converts an error of saving a product into a reply. If the store refuses a product with `refs`, another product has
/// one of these names, because `refs` is the only value from the API that must be unique among products.
fn taken(error: StoreError, has_names: bool) -> ApiError {
    match error {
        StoreError::Refused { .. } if has_names => {
            Fault::malformed(REFS.name, Invalid::expected("must be names that no other product has")).into()
        }
        error => error.into(),
    }
}
