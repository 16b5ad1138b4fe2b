//! `GET /api/validate` and `GET /api/product`.

use std::borrow::Cow;

use ::http::Method;

use super::body::BodyRule;
use super::fields::{Fault, integer};
use super::proof::VerifiedKey;
use super::row::{Answering, Handler, Parameter, Row, Verb, Words};
use super::{Call, Reply, query, wire};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::limit::Policy;
use crate::product::ProductId;

pub(super) static VALIDATE: Row = Row {
    path: "/api/validate",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: Some(Policy::Validate),
    handler: Handler::Key(validate),
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::InvalidKey,
        ErrorCode::ExpiredKey,
        ErrorCode::ExceededUses,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Words {
        tag: "buyer",
        id: "validate",
        summary: "Is a key still good?",
        description: "Never counts as a use. The key comes as `Authorization: Bearer`, as `X-API-Key`, or in the query: prefer a \
            header, for addresses end in logs.",
        parameters: &[Parameter::Key],
        body: None,
        success: Some("Valid"),
    },
};

pub(super) static PRODUCT: Row = Row {
    path: "/api/product",
    verb: Verb::Get,
    body: BodyRule::None,
    // The key's own limit counts.
    limit: None,
    handler: Handler::Product(product),
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::InvalidKey,
        ErrorCode::ExpiredKey,
        ErrorCode::ExceededUses,
        ErrorCode::WrongProduct,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Words {
        tag: "buyer",
        id: "fetchProduct",
        summary: "Fetch a product with a key",
        description: "A 200 counts as one use, and nothing else does. The key comes as `Authorization: Bearer`, as `X-API-Key`, \
            or in the query: prefer a header, for addresses end in logs.",
        parameters: &[Parameter::Key, Parameter::Product],
        body: None,
        success: Some("Fetched"),
    },
};

fn validate(delivery: &Delivery, key: VerifiedKey) -> Answering<'_> {
    Box::pin(async move {
        match delivery.check(key.id()).await {
            Ok(key) => Reply::json(&wire::Valid::of(&key)),
            Err(error) => not_valid(&error),
        }
    })
}

fn product<'c>(delivery: &'c Delivery, call: &'c Call, key: VerifiedKey, product: ProductId) -> Answering<'c> {
    Box::pin(async move {
        let (key, is_head) = (key.id(), call.method == Method::HEAD);
        let found = if is_head { delivery.peek(key, product).await } else { delivery.fetch(key, product).await };
        match found {
            Ok(product) => Reply::encoded(product.encoded(|product| wire::encode(&wire::Fetched::of(product)))),
            Err(error) => error.into(),
        }
    })
}

/// The text of the key, and the product that is asked for.
pub(super) fn parameters(call: &Call) -> Result<(Cow<'_, str>, ProductId), Fault> {
    let key = query::key(call)?;
    let product = query::parameter(call, "product_id")?.ok_or_else(|| Fault::missing("product_id"))?;
    Ok((key, integer("product_id", &product, ProductId::new)?))
}

/// Converts an error of `/api/validate`. Refusals contain `"valid":false`; those of a known key also contain its
/// status.
pub(super) fn not_valid(error: &Error) -> Reply {
    let code = error.code();
    match (code, error) {
        (ErrorCode::Unavailable | ErrorCode::Internal, error) => error.clone().into(),
        (code, Error::Refused { key, .. }) => Reply::json(&wire::RefusedKey::of(code, key)).with_status(code),
        (code, _) => Reply::json(&wire::Error::not_valid(code)).with_status(code).challenge(),
    }
}
