//! The delivery API in an axum application.
//!
//! [`router`] has every endpoint and merges into, or nests under, any [`Router`]; [`Grant`] guards routes of the host's
//! own with a key. What the API answers is decided in [`delivery_core::http`]; this crate converts.
//!
//! ```
//! use std::sync::Arc;
//! use axum::{Router, routing::get};
//! use delivery_axum::delivery_core::{Delivery, store::MemoryStore};
//!
//! # use delivery_testing::RecordingMailer;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
//! let (signing, webhook, admin) = ("a signing secret".parse()?, "a webhook secret".parse()?, "the-seller's-token".parse()?);
//! let delivery = Delivery::builder(store, mailer, signing, webhook, admin).build();
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .merge(delivery_axum::router(delivery));
//! # Ok(())
//! # }
//! ```
//!
//! Serve it with `into_make_service_with_connect_info::<SocketAddr>()`, so that limits count per client address. Without
//! it the API works too, but all clients share one allowance for each limit that counts per address.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod exchange;
mod grant;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any_service;
use delivery_core::Delivery;
use delivery_core::http::{Endpoint, Reply};
use tower::service_fn;

pub use delivery_core;

pub use self::grant::{Grant, Refused};

/// Every endpoint of the API, as a router that merges into or nests under the host's.
///
/// Other paths are left to the host; [`not_found`] is the fallback that the example servers use.
#[expect(clippy::needless_pass_by_value, reason = "the router keeps it; a host hands over its handle")]
pub fn router<S: Clone + Send + Sync + 'static>(delivery: Delivery) -> Router<S> {
    Endpoint::ALL.iter().copied().fold(Router::new(), |router, endpoint| {
        let delivery = delivery.clone();
        // A service for every method: a handler would be made into one for each request.
        let answer = service_fn(move |request: Request| exchange::answer(endpoint, delivery.clone(), request));
        router.route(endpoint.path(), any_service(answer))
    })
}

/// The API's answer to a path that is none of its own, for a host that wants it as fallback.
#[expect(clippy::unused_async, reason = "axum takes async functions as handlers")]
pub async fn not_found() -> Response {
    exchange::response(Reply::not_found())
}

/// The API's answer to a request whose handler panicked: for a host's panic-catching layer.
#[must_use]
pub fn internal() -> Response {
    exchange::response(Reply::internal())
}

/// The README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
