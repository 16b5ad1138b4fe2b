//! The types of the API's replies, which are serialized as JSON. Further types are in `admin::wire`, and in the modules
//! of single endpoints.

mod error;
#[cfg(feature = "files")]
pub(in crate::http) mod files;
pub(in crate::http) mod key;
mod post;
mod product;

use bytes::Bytes;
use serde::Serialize;

pub(in crate::http) use self::error::{Error, Problem, RefusedKey};
pub(in crate::http) use self::key::{IssuedByHand, Ordered, Valid, remaining};
pub(in crate::http) use self::post::{PostAdded, Posts};
pub(in crate::http) use self::product::{Added, Fetched, Products};

/// Encodes a reply as JSON. Encoding cannot fail, because replies contain only lists and objects of numbers, booleans
/// and text. If encoding failed nevertheless, the body would be empty.
pub(in crate::http) fn encode(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).map(Bytes::from).unwrap_or_default()
}
