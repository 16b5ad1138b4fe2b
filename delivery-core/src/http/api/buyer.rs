//! `GET /api/validate` and `GET /api/product`.

use ::http::Method;

use super::wire;
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::http::body::BodyRule;
use crate::http::fields::Fault;
use crate::http::proof::VerifiedKey;
use crate::http::query::FetchParams;
use crate::http::row::{Answering, Docs, Handler, Parameter, Row, Verb};
use crate::http::{Call, Reply};
use crate::key::Refusal;
use crate::limit::Policy;

pub(in crate::http) static VALIDATE: Row = Row {
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
    openapi: Docs {
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

pub(in crate::http) static PRODUCT: Row = Row {
    path: "/api/product",
    verb: Verb::Get,
    body: BodyRule::None,
    // The rate limit is per key.
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
    openapi: Docs {
        tag: "buyer",
        id: "fetchProduct",
        summary: "Fetch a product with a key",
        description: "A 200 counts as one use, and nothing else does. With an `Idempotency-Key`, a request that is sent again because \
            its answer was lost counts once, and is answered also if the key has expired or was used up meanwhile, but not if it was \
            revoked. The key comes as `Authorization: Bearer`, as `X-API-Key`, \
            or in the query: prefer a header, for addresses end in logs.",
        parameters: &[Parameter::Key, Parameter::Product, Parameter::IdempotencyKey],
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

fn product<'c>(delivery: &'c Delivery, call: &'c Call, key: VerifiedKey, asked: FetchParams) -> Answering<'c> {
    Box::pin(async move {
        let (key, FetchParams { product, request }) = (key.id(), asked);
        let found = match request {
            _ if call.method == Method::HEAD => delivery.peek(key, product).await,
            Some(request) => delivery.fetch_once(key, product, request).await,
            None => delivery.fetch(key, product).await,
        };
        match found {
            Ok(product) => Reply::encoded(product.encoded(|product| wire::encode(&wire::Fetched::of(product)))),
            Err(Error::Refused { refusal: Refusal::OtherRequest, .. }) => {
                Fault::invalid("Idempotency-Key names a request for another product.").into()
            }
            Err(error) => error.into(),
        }
    })
}

/// Converts an error of `/api/validate` into a reply. Refusals contain `"valid":false`; refusals of a known key also
/// contain its status.
pub(in crate::http) fn not_valid(error: &Error) -> Reply {
    let code = error.code();
    match (code, error) {
        (ErrorCode::Unavailable | ErrorCode::Internal, error) => error.clone().into(),
        (code, Error::Refused { key, .. }) => Reply::json(&wire::RefusedKey::of(code, key)).with_status(code),
        (code, _) => Reply::json(&wire::Error::not_valid(code)).with_status(code).challenge(),
    }
}
