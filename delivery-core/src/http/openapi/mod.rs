//! `GET /api/openapi.json`: the API describes itself.
//!
//! The tests of this module generate the document from the wire types, the endpoints and the codes. It is committed
//! beside them, so that serving it costs nothing, and a test fails if the API changes but the document does not. After
//! such a change, `UPDATE_OPENAPI=1 cargo test -p delivery-core openapi` regenerates it.

#[cfg(test)]
#[cfg(feature = "platforms")]
mod bodies;
#[cfg(test)]
#[cfg(feature = "platforms")]
mod document;
#[cfg(test)]
#[cfg(feature = "platforms")]
mod operations;
#[cfg(test)]
#[cfg(feature = "platforms")]
mod responses;
#[cfg(test)]
#[cfg(feature = "platforms")]
mod sample;
#[cfg(feature = "utoipa")]
mod value;

use bytes::Bytes;

#[cfg(feature = "utoipa")]
pub use self::value::openapi;

use super::Reply;
use super::body::BodyRule;
use super::row::{Handler, Row, Verb, Words};
use crate::error::ErrorCode;

/// The description of the API: an OpenAPI 3.1 document in JSON, as `GET /api/openapi.json` answers it.
///
/// The paths in it are relative to where the API is mounted: its server is `..`, as seen from the document.
pub const OPENAPI: &str = include_str!("openapi.json");

pub(super) static DESCRIBE: Row = Row {
    path: "/api/openapi.json",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: None,
    handler: Handler::Public(|_, _| Box::pin(async { Reply::encoded(Bytes::from_static(OPENAPI.as_bytes())) })),
    codes: &[ErrorCode::MethodNotAllowed],
    openapi: Words {
        tag: "public",
        id: "describe",
        summary: "This description",
        description: "OpenAPI 3.1, in JSON.",
        parameters: &[],
        body: None,
        success: None,
    },
};
