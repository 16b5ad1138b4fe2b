//! The endpoints of the API: rows and handlers.
//!
//! | file | callers |
//! |---|---|
//! | `buyer`, `lost` | buyers, with a key or without one |
//! | `order`, `webhook` | commerce platforms, by a shared secret or by a signature |
//! | `file` | buyers, by the link to a file |
//! | `lists` | anybody: products and posts |
//! | `admin` | the seller |
//! | `wire` | the JSON types of the replies |

pub(super) mod admin;
pub(super) mod buyer;
#[cfg(feature = "files")]
pub(super) mod file;
pub(super) mod lists;
pub(super) mod lost;
pub(super) mod order;
pub(super) mod webhook;
pub(super) mod wire;
