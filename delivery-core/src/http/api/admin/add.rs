//! The endpoints with which the seller adds a product, a key or a post: `POST /api/admin/…`.

use chrono::{DateTime, Timelike, Utc};

use super::COMMAND;
use crate::delivery::Delivery;
use crate::http::Reply;
use crate::http::api::wire;
use crate::http::describe::{
    Body, CATEGORY, CONTENT, CUSTOMER_EMAIL, DAYS_FOR_ALL, DAYS_OF_PRODUCT, DESCRIPTION, EXPIRES_DAYS, Field, LANGUAGE,
    MAX_USES, NAME, PRICE, PRODUCT_ID, PUBLISHED_AT, REFS, SEND_EMAIL, TITLE, TYPE, UNLOCKED, USES_FOR_ALL,
    USES_OF_PRODUCT, shape,
};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::proof::Seller;
use crate::http::row::{Docs, Handler, Row};
use crate::post::{Category, NewPost};
use crate::product::{NewProduct, ProductId};
use crate::store::StoreError;
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;
use crate::{
    http::PlatformPath,
    order::Source,
    product::{RefName, Refs},
};

pub(in crate::http) static ADD_PRODUCT: Row = Row {
    path: "/api/admin/product",
    openapi: Docs {
        id: "addProduct",
        summary: "Add a product",
        description: "It can be sold from now on.",
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
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(add_product(delivery, seller, fields))),
    ..COMMAND
};

pub(in crate::http) static ISSUE_KEY: Row = Row {
    path: "/api/admin/issue-key",
    openapi: Docs {
        id: "issueKey",
        summary: "Issue a key by hand",
        description: "Each call is another key. It is sent to the buyer unless `send_email` is false.",
        body: Some(Body {
            name: "NewKey",
            about: "A key that the seller issues by hand.",
            fields: &[
                PRODUCT_ID.required(),
                CUSTOMER_EMAIL.required(),
                EXPIRES_DAYS.about(DAYS_OF_PRODUCT),
                MAX_USES.about(USES_OF_PRODUCT),
                SEND_EMAIL,
            ],
            example: r#"{"product_id":1,"customer_email":"ada@example.com","max_uses":1}"#,
        }),
        success: shape!(wire::IssuedByHand<'_>),
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(issue_key(delivery, seller, fields))),
    ..COMMAND
};

pub(in crate::http) static ADD_POST: Row = Row {
    path: "/api/admin/post",
    openapi: Docs {
        id: "addPost",
        summary: "Add a post",
        description: "It is listed from `published_at` on.",
        body: Some(Body {
            name: "NewPost",
            about: "A post.",
            fields: &[TITLE.required(), CATEGORY.required(), CONTENT.required(), PUBLISHED_AT],
            example: r#"{"title":"News","category":"releases","content":"A new chapter."}"#,
        }),
        success: shape!(wire::PostAdded<'_>),
        ..COMMAND.openapi
    },
    handler: Handler::Seller(|delivery, seller, fields| Box::pin(add_post(delivery, seller, fields))),
    ..COMMAND
};

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

async fn issue_key(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let product = fields.integer(PRODUCT_ID, ProductId::new)?.ok_or_else(|| Fault::missing(PRODUCT_ID.name))?;
    let email = fields.parsed(CUSTOMER_EMAIL)?.ok_or_else(|| Fault::missing(CUSTOMER_EMAIL.name))?;
    let terms = terms(&fields)?;
    let send_email = fields.boolean(SEND_EMAIL)?.unwrap_or(true);
    let issued = delivery.desk(seller.actor()).issue(product, email, terms, send_email).await?;
    Ok(Reply::json(&wire::IssuedByHand::of(&issued, send_email)))
}

async fn add_post(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let checked = |field: Field| move |expected: Invalid| Fault::malformed(field.name, expected);
    let title = fields.required_text(TITLE)?;
    let category = Category::new(fields.required_text(CATEGORY)?).map_err(checked(CATEGORY))?;
    let published_at = timestamp_of(&fields, PUBLISHED_AT)?.unwrap_or_else(|| delivery.inner.clock.now());
    let post = NewPost::new(title, category, published_at).map_err(checked(TITLE))?;
    let post = post.content(fields.required_text(CONTENT)?).map_err(checked(CONTENT))?;
    let added = delivery.desk(seller.actor()).add_post(post).await?;
    Ok(Reply::json(&wire::PostAdded::of(&added)))
}

/// Converts an error of saving a product. If the store refuses a product with `refs`, then another product has one of
/// these names, because `refs` is the only value from the API that must be unique among products.
pub(super) fn taken(error: StoreError, has_names: bool) -> ApiError {
    match error {
        StoreError::Refused { .. } if has_names => {
            Fault::malformed(REFS.name, Invalid::expected("must be names that no other product has")).into()
        }
        error => error.into(),
    }
}

/// Returns the field `refs`: the names by which commerce platforms call a product, such as `{"stripe": ["plink_1"]}`.
pub(in crate::http) fn refs_of(delivery: &Delivery, fields: &Fields<'_>) -> Result<Option<Refs>, Fault> {
    const EXPECTED: Invalid = Invalid::expected(
        "must be an object of lists of names, each of 1 to 255 characters without control characters",
    );
    let Some(given) = fields.value::<Strict>(REFS, EXPECTED)? else { return Ok(None) };
    let mut names = Vec::new();
    for (platform, called) in given.0 {
        let source = platform_named(delivery, &platform)
            .ok_or_else(|| Fault::malformed(REFS.name, Invalid::expected("must name platforms such as stripe")))?;
        for name in called {
            let name = name.parse::<RefName>().map_err(|_| Fault::malformed(REFS.name, EXPECTED))?;
            names.push((source.clone(), name));
        }
    }
    Refs::new(names).map(Some).map_err(|expected| Fault::malformed(REFS.name, expected))
}

/// Returns the platform with this name. Returns `None` if neither this crate nor the host application supports such a
/// platform.
pub(in crate::http) fn platform_named(delivery: &Delivery, name: &str) -> Option<Source> {
    let is_known = PlatformPath::BUILT_IN.iter().any(|known| known.name() == name)
        || delivery.inner.platforms.named(name).is_some();
    name.parse().ok().filter(|_| is_known)
}

/// A JSON object whose values are lists of strings. It is an error if a name occurs twice in the object.
struct Strict(std::collections::BTreeMap<String, Vec<String>>);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> serde::de::Visitor<'de> for Object {
            type Value = Strict;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
                let mut read = std::collections::BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Vec<String>>()? {
                    if read.insert(name, value).is_some() {
                        return Err(serde::de::Error::custom("a name comes twice"));
                    }
                }
                Ok(Strict(read))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

pub(in crate::http) fn terms(fields: &Fields<'_>) -> Result<OwnTerms, Fault> {
    Ok(OwnTerms {
        validity: fields.integer(EXPIRES_DAYS, Validity::from_days)?,
        limit: fields.integer(MAX_USES, UseLimit::from_count)?,
    })
}

/// Returns the time in a field, which must be an RFC 3339 timestamp from 1970 to 9999. The time is cut to whole
/// seconds. Returns `None` if the field is absent or empty.
pub(in crate::http) fn timestamp_of(fields: &Fields<'_>, field: Field) -> Result<Option<DateTime<Utc>>, Fault> {
    const EXPECTED: Invalid =
        Invalid::expected("must be an RFC 3339 timestamp from 1970 to 9999, such as 2026-11-21T10:00:00Z");
    let Some(text) = fields.text_of(field)? else { return Ok(None) };
    let at = DateTime::parse_from_rfc3339(&text).map_err(|_| Fault::malformed(field.name, EXPECTED))?.to_utc();
    // Drop the fraction of a second, and a leap second. Otherwise this reply and a later list could show different
    // times.
    let at = at.with_nanosecond(0).unwrap_or(at);
    let writable = (DateTime::UNIX_EPOCH..=crate::terms::NEVER).contains(&at);
    writable.then_some(Some(at)).ok_or_else(|| Fault::malformed(field.name, EXPECTED))
}
