//! The endpoints of the API: their rows in the endpoint table, and their handlers.
//!
//! | module | callers |
//! |---|---|
//! | `buyer`, `lost` | buyers, with a key or without one |
//! | `order`, `webhook` | commerce platforms, with a shared secret or a signature |
//! | `file` | buyers, with the link to a file |
//! | `lists` | anybody, for products and posts |
//! | `admin` | the seller |
//!
//! The module `wire` has the JSON types of the replies.

pub(super) mod admin;
pub(super) mod buyer;
#[cfg(feature = "files")]
pub(super) mod file;
pub(super) mod lists;
pub(super) mod lost;
pub(super) mod order;
pub(super) mod webhook;
pub(super) mod wire;
