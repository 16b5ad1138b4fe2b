//! `GET /api/openapi.json`: the API describes itself.
//!
//! The document is made from the wire types, the endpoints and the codes by the tests of this module, and committed beside
//! them: to serve it costs nothing, and a change of the API that leaves it behind fails. After such a change,
//! `UPDATE_OPENAPI=1 cargo test -p delivery-core openapi` writes it anew.

#[cfg(test)]
mod bodies;
#[cfg(test)]
mod document;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod sample;

use bytes::Bytes;

use super::Reply;

/// The description of the API: an OpenAPI 3.1 document in JSON, as `GET /api/openapi.json` answers it.
///
/// The paths in it are relative to where the API is mounted: its server is `..`, as seen from the document.
pub const OPENAPI: &str = include_str!("openapi.json");

pub(super) fn document() -> Reply {
    Reply::encoded(Bytes::from_static(OPENAPI.as_bytes()))
}
