//! `GET /api/validate` and `GET /api/product`.

use ::http::Method;

use super::wire;
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::http::body::BodyRule;
use crate::http::describe::shape;
use crate::http::error::ApiError;
use crate::http::fields::Fault;
use crate::http::proof::VerifiedKey;
use crate::http::query::FetchParams;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::http::{Call, Reply, parameter};
use crate::key::Refusal;
use crate::limit::Policy;

pub(in crate::http) static VALIDATE: Row = Row {
    path: "/api/validate",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: Some(Policy::Validate),
    cross_origin: true,
    handler: Handler::Key(|delivery, key| Box::pin(validate(delivery, key))),
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::InvalidKey,
        ErrorCode::ExpiredKey,
        ErrorCode::ExceededUses,
        ErrorCode::Denied,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Docs {
        tag: "buyer",
        id: "validate",
        summary: "Check whether a key is valid",
        description: "Checks a key and counts no use. Send the key as `Authorization: Bearer`, as `X-API-Key`, or in \
            the query. Prefer a header, because addresses end up in logs.",
        parameters: &[parameter::KEY],
        success: shape!(wire::Valid),
        ..Docs::EMPTY
    },
};

pub(in crate::http) static PRODUCT: Row = Row {
    path: "/api/product",
    verb: Verb::Get,
    body: BodyRule::None,
    // The pipeline, which calls the handler, counts the call against the rate limit of the key. Only a call whose key
    // is not authentic counts against a rate limit of the client's address.
    limit: None,
    cross_origin: true,
    handler: Handler::Product(|delivery, call, key, asked| Box::pin(product(delivery, call, key, asked))),
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::InvalidKey,
        ErrorCode::ExpiredKey,
        ErrorCode::ExceededUses,
        ErrorCode::WrongProduct,
        ErrorCode::Denied,
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
        description: "A request that is answered with 200 counts as one use of the key. No other answer counts a use. \
            If you send an `Idempotency-Key`, you can repeat a request whose answer was lost, and the repetition \
            counts no use. Send the key as `Authorization: Bearer`, as `X-API-Key`, or in the query. Prefer a header, \
            because addresses end up in logs.",
        parameters: &[parameter::KEY, parameter::FETCHED_PRODUCT, parameter::IDEMPOTENCY_KEY],
        success: shape!(wire::Fetched<'_>),
        ..Docs::EMPTY
    },
};

async fn validate(delivery: &Delivery, key: VerifiedKey) -> Result<Reply, ApiError> {
    let key = delivery.check(key.id()).await.map_err(not_valid)?;
    Ok(Reply::json(&wire::Valid::of(&key)))
}

async fn product(delivery: &Delivery, call: &Call, key: VerifiedKey, asked: FetchParams) -> Result<Reply, ApiError> {
    let (key, FetchParams { product, request }) = (key.id(), asked);
    let found = match request {
        _ if call.method == Method::HEAD => delivery.look(key, product).await,
        request => delivery.open(key, product, request).await,
    };
    match found {
        Ok(opened) => {
            let product = &opened.product;
            let encoded = product.encoded(|product| wire::encode(&wire::Fetched::of(product)));
            #[cfg(feature = "files")]
            if let links @ [_, ..] = &*delivery.links(&opened.key, product, opened.at) {
                // The cached bytes contain no links to files, because the links differ in each reply. Insert the links
                // before the last `}}`.
                let start = encoded.slice(..encoded.len().saturating_sub(2));
                return Ok(Reply::encoded(start).followed_by(vec![wire::files::end_of_fetched(links)]));
            }
            Ok(Reply::encoded(encoded))
        }
        Err(Error::Refused { refusal: Refusal::OtherRequest, .. }) => {
            Err(Fault::invalid("Idempotency-Key names a request for another product.").into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Converts an error of `/api/validate` into a reply. If the key is not valid, the reply contains `"valid":false`. For
/// a key that exists and is not revoked, the reply also contains the key's product, expiry and uses.
pub(in crate::http) fn not_valid(error: Error) -> ApiError {
    match (error.code(), &error) {
        (ErrorCode::Unavailable | ErrorCode::Internal, _) => error.into(),
        (code, Error::Refused { key, .. }) => {
            Reply::json(&wire::RefusedKey::of(code, error.denied(), key)).with_status(code).into()
        }
        (code, _) => Reply::json(&wire::Error::not_valid(code)).with_status(code).challenge().into(),
    }
}
