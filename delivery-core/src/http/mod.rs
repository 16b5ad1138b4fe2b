//! The HTTP API, independent of any web framework: a [`Call`] goes in, and a [`Reply`] comes out.
//!
//! This module implements the whole HTTP behavior of the API: parsing, limits, authentication, status codes, headers
//! and JSON. The [endpoint table](Endpoint) has a row for each endpoint, and one pipeline handles every call according
//! to the row of the called endpoint. A binding connects this module to a web framework. It mounts one route for each
//! [`Endpoint`] and only converts requests and responses, so the API behaves the same in every framework.
//!
//! # Writing a binding
//!
//! For each endpoint that the service [serves](Endpoint::served_by), mount its [`path`](Endpoint::path) for *every*
//! method, because this module also answers wrong methods. To answer a request, convert its head into a [`Call`]. Pass
//! the call to [`Endpoint::serve`], together with the body as a stream, which is read only as far as necessary. Then
//! convert the [`Reply`] into a response. Answer any other path below `/api/` with [`Reply::not_found`]. An application
//! that consists only of this service can answer all other paths with [`Reply::unknown`].
//!
//! ```
//! # async fn example(delivery: delivery_core::Delivery) {
//! use delivery_core::http::{Call, Endpoint};
//!
//! let call = Call::new(http::Method::GET).query("key=dlv_something");
//! let reply = Endpoint::Validate.call(&delivery, call).await;
//! assert_eq!(reply.status().as_u16(), 401);
//! # }
//! ```

mod address;
mod api;
mod body;
mod call;
#[cfg(feature = "files")]
mod conditional;
mod credential;
mod cross_origin;
mod describe;
mod error;
mod export;
mod fields;
mod filters;
mod limits;
mod names;
mod openapi;
#[cfg(feature = "pages")]
mod pages;
mod parameter;
mod pieces;
mod pipeline;
mod proof;
mod query;
mod reply;
mod row;
mod table;
mod unknown;

pub use self::api::webhook::PlatformPath;
pub use self::call::{Call, is_request_id};
pub use self::credential::{Grant, Requirement};
pub use self::fields::Fault;
pub use self::openapi::OPENAPI;
#[cfg(feature = "utoipa")]
pub use self::openapi::openapi;
#[cfg(feature = "pages")]
pub use self::pages::Page;
pub use self::pieces::ReplyBody;
pub use self::reply::Reply;
pub use self::table::Endpoint;
