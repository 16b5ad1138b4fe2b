//! Products and posts: changing them.

use super::{COMMAND, answered};
use crate::delivery::Delivery;
use crate::http::admin::{refs_of, terms, timestamp_of};
use crate::http::fields::{Fault, Fields};
use crate::http::proof::Seller;
use crate::http::row::{Handler, Row, Words};
use crate::http::{Reply, wire};
use crate::post::{Category, PostId};
use crate::product::ProductId;
use crate::store::StoreError;
use crate::text::Invalid;

pub(in crate::http) static UPDATE_PRODUCT: Row = Row {
    path: "/api/admin/product/update",
    openapi: Words {
        id: "updateProduct",
        summary: "Change a product",
        description: "What is left out stays as it is. Keys sold before fetch what it says now, on the terms that they were sold \
            with. Sales that waited for its names are applied.",
        body: Some("ProductUpdate"),
        success: Some("Added"),
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(answered(update_product(delivery, seller, fields)))),
    ..COMMAND
};

pub(in crate::http) static ARCHIVE_PRODUCT: Row = Row {
    path: "/api/admin/product/archive",
    openapi: Words {
        id: "archiveProduct",
        summary: "Stop selling a product",
        description: "It is neither listed nor sold any more. Keys sold before still fetch it, and orders that were paid before \
            are answered with their keys.",
        body: Some("TheProduct"),
        success: Some("Added"),
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(answered(archive(delivery, seller, fields)))),
    ..COMMAND
};

pub(in crate::http) static UPDATE_POST: Row = Row {
    path: "/api/admin/post/update",
    openapi: Words {
        id: "updatePost",
        summary: "Change a post",
        description: "What is left out stays as it is.",
        body: Some("PostUpdate"),
        success: Some("PostAdded"),
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(answered(update_post(delivery, seller, fields)))),
    ..COMMAND
};

pub(in crate::http) static DELETE_POST: Row = Row {
    path: "/api/admin/post/delete",
    openapi: Words {
        id: "deletePost",
        summary: "Delete a post",
        description: "It is gone.",
        body: Some("ThePost"),
        success: Some("Done"),
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(answered(delete_post(delivery, seller, fields)))),
    ..COMMAND
};

async fn update_product(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, Fault> {
    let checked = |field: &'static str| move |expected: Invalid| Fault::malformed(field, expected);
    let id = fields.integer("id", ProductId::new)?.ok_or_else(|| Fault::missing("id"))?;
    let product = match delivery.product(id).await {
        Ok(Some(product)) => product,
        Ok(None) => return Ok(Reply::not_found()),
        Err(error) => return Ok(error.into()),
    };
    let mut facts = product.facts().clone();
    if let Some(name) = fields.text_of("name")? {
        facts = facts.name(name).map_err(checked("name"))?;
    }
    // It may be emptied.
    if let Some(description) = fields.given_text("description")? {
        facts = facts.description(description).map_err(checked("description"))?;
    }
    if let Some(content) = fields.text_of("content")? {
        facts = facts.content(content).map_err(checked("content"))?;
    }
    if let Some(kind) = fields.text_of("type")? {
        facts = facts.kind(kind).map_err(checked("type"))?;
    }
    if let Some(price) = fields.number("price")? {
        facts = facts.price(price);
    }
    let (new, old) = (terms(&fields)?, product.terms());
    facts =
        facts.terms(crate::terms::OwnTerms { validity: new.validity.or(old.validity), limit: new.limit.or(old.limit) });
    if let Some(refs) = refs_of(delivery, &fields)? {
        facts = facts.refs(refs);
    }
    if let Some(language) = fields.parsed("language")? {
        facts = facts.language(language);
    }
    let has_names = facts.has_names();
    Ok(match delivery.desk(seller.actor()).update_product(id, facts).await {
        Ok(Some(product)) => Reply::json(&wire::Added::of(&product)),
        Ok(None) => Reply::not_found(),
        // Nothing else that comes in this way is to be one product's.
        Err(StoreError::Refused { .. }) if has_names => {
            return Err(Fault::malformed("refs", Invalid::expected("must be names that no other product has")));
        }
        Err(error) => error.into(),
    })
}

async fn archive(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, Fault> {
    let id = fields.integer("id", ProductId::new)?.ok_or_else(|| Fault::missing("id"))?;
    Ok(match delivery.desk(seller.actor()).archive_product(id).await {
        Ok(Some(product)) => Reply::json(&wire::Added::of(&product)),
        Ok(None) => Reply::not_found(),
        Err(error) => error.into(),
    })
}

async fn update_post(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, Fault> {
    let checked = |field: &'static str| move |expected: Invalid| Fault::malformed(field, expected);
    let id = fields.integer("id", PostId::new)?.ok_or_else(|| Fault::missing("id"))?;
    let desk = delivery.desk(seller.actor());
    let post = match desk.post(id).await {
        Ok(Some(post)) => post,
        Ok(None) => return Ok(Reply::not_found()),
        Err(error) => return Ok(error.into()),
    };
    let mut facts = post.facts().clone();
    if let Some(title) = fields.text_of("title")? {
        facts = facts.title(title).map_err(checked("title"))?;
    }
    if let Some(category) = fields.text_of("category")? {
        facts = facts.category(Category::new(category).map_err(checked("category"))?);
    }
    if let Some(content) = fields.text_of("content")? {
        facts = facts.content(content).map_err(checked("content"))?;
    }
    if let Some(at) = timestamp_of(&fields, "published_at")? {
        facts = facts.published_at(at);
    }
    Ok(match desk.update_post(id, facts).await {
        Ok(Some(post)) => Reply::json(&wire::PostAdded::of(&post)),
        Ok(None) => Reply::not_found(),
        Err(error) => error.into(),
    })
}

async fn delete_post(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, Fault> {
    let id = fields.integer("id", PostId::new)?.ok_or_else(|| Fault::missing("id"))?;
    Ok(match delivery.desk(seller.actor()).delete_post(id).await {
        Ok(true) => Reply::json(&super::wire::Done::new()),
        Ok(false) => Reply::not_found(),
        Err(error) => error.into(),
    })
}
