//! The seller's endpoints for the files of products.

use std::pin::Pin;

use ::http::{HeaderMap, header};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use futures_util::Stream;

use super::super::wire;
use super::{NEEDING, command, done, query};
use crate::delivery::{Delivery, Error, NewFile, PutError};
use crate::error::ErrorCode;
use crate::files::{Broken, UploadError};
use crate::http::body::BodyRule;
use crate::http::describe::{Body, FILE_NAME, PRODUCT_ID, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::proof::Seller;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::http::{Call, Reply, names, parameter};
use crate::limit::Policy;
use crate::product::{FileName, MediaType, Product, ProductId};
use crate::text::Invalid;

pub(in crate::http) static PUT_FILE: Row = Row {
    path: "/api/admin/product/file",
    verb: Verb::Put,
    body: BodyRule::Streamed,
    limit: Some(Policy::Admin),
    cross_origin: false,
    handler: Handler::Upload(|delivery, seller, call, pieces| Box::pin(put(delivery, seller, call, pieces))),
    openapi: Docs {
        id: "putFile",
        summary: "Add or replace a file of a product",
        description: "The body is the file. The header `Content-Type` gives its media type. If you send \
            `Content-SHA256` (hexadecimal) or `Repr-Digest`, the file must have this digest. A file of the product \
            with the same name is replaced. Names are compared without regard to case.",
        parameters: &[parameter::PRODUCT_ID, parameter::FILE_NAME],
        success: shape!(wire::files::FileAdded),
        ..Docs::SELLER
    },
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::Unauthorized,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::PayloadTooLarge,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
};

pub(in crate::http) static FILES: Row = query(
    "/api/admin/product/files",
    NEEDING,
    |delivery, seller, call| Box::pin(list(delivery, seller, call)),
    Docs {
        id: "listFiles",
        summary: "The files of a product",
        description: "The files are sorted by name.",
        parameters: &[parameter::PRODUCT_ID],
        success: shape!(wire::files::Files),
        ..Docs::SELLER
    },
);

pub(in crate::http) static DELETE_FILE: Row = command(
    "/api/admin/product/file/delete",
    |delivery, seller, fields| Box::pin(delete(delivery, seller, fields)),
    Docs {
        id: "deleteFile",
        summary: "Delete a file of a product",
        description: "Downloads that have begun can finish.",
        body: Some(Body {
            name: "TheFile",
            about: "A file of a product.",
            fields: &[PRODUCT_ID.required(), FILE_NAME],
            example: r#"{"product_id":1,"name":"guide.pdf"}"#,
        }),
        success: shape!(super::wire::Done),
        ..Docs::SELLER
    },
);

async fn put(
    delivery: &Delivery,
    seller: Seller,
    call: &Call,
    pieces: Pin<&mut (dyn Stream<Item = Result<Bytes, Broken>> + Send)>,
) -> Result<Reply, ApiError> {
    let product = product_id(call)?;
    let name = parameter::FILE_NAME.parsed::<FileName>(call)?;
    let name = name.ok_or_else(|| Fault::missing(parameter::FILE_NAME.name))?;
    if call.headers.contains_key(header::CONTENT_RANGE) {
        // RFC 9110, section 14.5, recommends a 400 here. If the header were ignored, a part would replace the whole
        // file.
        return Err(Fault::invalid("Send the whole file: Content-Range is not understood.").into());
    }
    let length = call.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > delivery.max_file_size()) {
        return Err(ErrorCode::PayloadTooLarge.into());
    }
    let new = NewFile { product, name, media_type: media_type(&call.headers)?, length, sha256: digest(&call.headers)? };
    let file = delivery.desk(seller.actor()).put_file(new, pieces).await.map_err(refused)?;
    Ok(Reply::json(&wire::files::FileAdded::of(&file)))
}

async fn list(delivery: &Delivery, _: Seller, call: &Call) -> Result<Reply, ApiError> {
    let product = delivery.product(product_id(call)?).await?.ok_or(ApiError::NOT_FOUND)?;
    Ok(Reply::json(&wire::files::Files::of(Product::files(&product))))
}

async fn delete(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let product = fields.integer(PRODUCT_ID, ProductId::new)?.ok_or_else(|| Fault::missing(PRODUCT_ID.name))?;
    let name = fields.required_text(FILE_NAME)?;
    let name = name.parse::<FileName>().map_err(|expected| Fault::malformed(FILE_NAME.name, expected))?;
    done(delivery.desk(seller.actor()).delete_file(product, &name).await?)
}

fn product_id(call: &Call) -> Result<ProductId, Fault> {
    let product = parameter::PRODUCT_ID.integer(call, ProductId::new)?;
    product.ok_or_else(|| Fault::missing(parameter::PRODUCT_ID.name))
}

/// Converts an error of an upload into a reply.
pub(in crate::http) fn refused(error: PutError) -> ApiError {
    let invalid = |why| ApiError::from(Fault::invalid(why));
    match error {
        PutError::UnknownProduct => ApiError::NOT_FOUND,
        PutError::TooMany => invalid("A product has at most 100 files."),
        PutError::Store(error) => Error::from(error).into(),
        PutError::Upload(UploadError::TooLarge) => ErrorCode::PayloadTooLarge.into(),
        PutError::Upload(UploadError::Broken) => invalid("The body is incomplete, or is not framed as HTTP requires."),
        PutError::Upload(UploadError::Late) => invalid("The body did not come in time: each MiB has a minute."),
        PutError::Upload(UploadError::WrongDigest) => {
            invalid("The body does not have the digest that the request gives.")
        }
        PutError::Upload(UploadError::Busy) => Reply::unavailable().into(),
        PutError::Upload(error @ UploadError::Objects(_)) => Reply::unavailable().because(error).into(),
    }
}

/// Parses `Content-Type`. Returns the default media type if the header is absent.
fn media_type(headers: &HeaderMap) -> Result<MediaType, Fault> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(MediaType::default()) };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Fault::malformed("Content-Type", Invalid::expected("must be a media type")))
}

/// Returns the SHA-256 that the body must have, from `Content-SHA256` or `Repr-Digest` (RFC 9530). Returns `None` if
/// neither header is given. It is an error if both are given and differ.
fn digest(headers: &HeaderMap) -> Result<Option<[u8; 32]>, Fault> {
    const HEX: Invalid = Invalid::expected("must be 64 hexadecimal digits");
    const STRUCTURED: Invalid = Invalid::expected("must have a SHA-256, as sha-256=:BASE64:");
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let plain = text(&names::CONTENT_SHA256).map(|hex| {
        let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| Fault::malformed("Content-SHA256", HEX))
    });
    let structured = text(&names::REPR_DIGEST).map(|digests| {
        let value = digests.split(',').find_map(|digest| digest.trim().strip_prefix("sha-256=:")?.strip_suffix(':'));
        let bytes = value.and_then(|value| BASE64.decode(value.as_bytes()).ok()?.try_into().ok());
        bytes.ok_or_else(|| Fault::malformed("Repr-Digest", STRUCTURED))
    });
    match (plain.transpose()?, structured.transpose()?) {
        (Some(plain), Some(structured)) if plain != structured => {
            Err(Fault::invalid("Content-SHA256 and Repr-Digest differ."))
        }
        (plain, structured) => Ok(plain.or(structured)),
    }
}
