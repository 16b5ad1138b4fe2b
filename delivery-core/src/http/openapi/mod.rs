//! `GET /api/openapi.json`: the OpenAPI document of the API.
//!
//! The tests of this module generate the document from the types of the replies, the endpoints and the error codes. The
//! generated document is committed, so that serving it costs nothing. A test fails if the API has changed but the
//! document has not. If the test fails, regenerate the document:
//! `UPDATE_OPENAPI=1 cargo test -p delivery-core --all-features openapi`.

#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "files"))]
mod bodies;
#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "files"))]
mod document;
#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "files"))]
mod operations;
#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "files"))]
mod responses;
#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "files"))]
mod sample;
#[cfg(feature = "utoipa")]
mod value;

use bytes::Bytes;
use serde_json::{Value, json};

#[cfg(feature = "utoipa")]
pub use self::value::openapi;

use super::api::webhook::PlatformPath;
use super::body::BodyRule;
use super::error::Answering;
use super::row::{Docs, Handler, Row, Verb};
use super::{Call, Reply};
use crate::delivery::Delivery;
use crate::error::ErrorCode;

/// The OpenAPI 3.1 document of the API, in JSON. `GET /api/openapi.json` returns this document. If the host application
/// adds commerce platforms, the endpoint adds their paths to the document.
///
/// The paths in the document are relative to where the API is mounted. The document declares this with the server URL
/// `..`, which is relative to the URL of the document.
pub const OPENAPI: &str = include_str!("openapi.json");

pub(super) static DESCRIBE: Row = Row {
    path: "/api/openapi.json",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: None,
    cross_origin: false,
    handler: Handler::Public(describe),
    codes: &[ErrorCode::MethodNotAllowed],
    openapi: Docs {
        tag: "public",
        id: "describe",
        summary: "This OpenAPI document",
        description: "OpenAPI 3.1, in JSON.",
        ..Docs::EMPTY
    },
};

fn describe<'c>(delivery: &'c Delivery, _: &'c Call) -> Answering<'c> {
    let document = delivery.inner.described.get_or_init(|| {
        let own: Vec<&str> = PlatformPath::of_host(delivery).map(PlatformPath::path).collect();
        if own.is_empty() { Bytes::from_static(OPENAPI.as_bytes()) } else { with_own(own).to_string().into() }
    });
    Box::pin(async move { Ok(Reply::encoded(document.clone())) })
}

/// Returns the document with the additional paths `own`, which belong to commerce platforms that the host application
/// adds. The replies at these paths are the same as for the built-in platforms. The document does not describe the
/// signatures and bodies of the requests, because they are not known here.
fn with_own<'p>(own: impl IntoIterator<Item = &'p str>) -> Value {
    let mut document: Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    let Some(Value::Object(paths)) = document.get_mut("paths") else { return document };
    let known = paths.get("/api/webhook/standard").cloned().unwrap_or_default();
    for path in own {
        let mut item = known.clone();
        if let Some(Value::Object(operation)) = item.get_mut("post") {
            let name = path.rsplit('/').next().unwrap_or_default();
            operation.remove("parameters");
            operation.insert("operationId".to_owned(), format!("{name}Event").into());
            operation.insert("requestBody".to_owned(), json!({ "content": { "*/*": {} }, "required": true }));
        }
        paths.entry(path).or_insert(item);
    }
    document
}
