//! The delivery API in an axum application.
//!
//! [`router`] returns a router with every endpoint. Merge it into, or nest it under, any [`Router`]. [`router_of`] and
//! [`method_router`] serve only the endpoints that the host application picks. [`Grant`] and [`RequireKeyLayer`] guard
//! the host application's own routes with a key. [`delivery_core::http`] decides what the API answers; this crate only
//! converts requests and responses.
//!
//! ```
//! use std::sync::Arc;
//! use axum::{Router, routing::get};
//! use delivery_axum::delivery_core::Delivery;
//!
//! # use delivery_testing::{MemoryStore, RecordingMailer};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
//! let (signing, webhook, admin) = ("a signing secret".parse()?, "a webhook secret".parse()?, "the-seller's-token".parse()?);
//! let delivery = Delivery::builder(store, mailer, signing).webhook_secret(webhook).admin_token(admin).build();
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .merge(delivery_axum::router(delivery));
//! # Ok(())
//! # }
//! ```
//!
//! Serve the application with `into_make_service_with_connect_info::<SocketAddr>()`, so that limits count per client
//! address. Without the client's address the API works too, but all clients share one allowance for each limit that
//! counts per address.
//!
//! # Your log
//!
//! A request may contain its key in the query string. By default, `tower-http`'s `TraceLayer` records the whole URI.
//! This layer records no query string:
//!
//! ```
//! use axum::extract::Request;
//! use tower_http::trace::TraceLayer;
//!
//! let layer = TraceLayer::new_for_http().make_span_with(|request: &Request| {
//!     tracing::info_span!("request", method = %request.method(), path = request.uri().path())
//! });
//! # let _: axum::Router = axum::Router::new().layer(layer);
//! ```
//!
//! The path of a download contains a ticket, which gives access to a file for up to 24 hours. If others read your log,
//! leave out paths below `/api/file/` too.
//!
//! # Other origins
//!
//! [`Builder::cross_origin`](delivery_core::delivery::Builder::cross_origin) lets pages of other origins, such as a
//! static shop, call the API's endpoints for buyers. For routes of your own, use `tower-http`'s `CorsLayer`:
//!
//! ```
//! use axum::http::{HeaderName, HeaderValue, Method, header};
//! use tower_http::cors::CorsLayer;
//!
//! let layer = CorsLayer::new()
//!     .allow_origin(HeaderValue::from_static("https://shop.example"))
//!     .allow_methods([Method::GET])
//!     .allow_headers([header::AUTHORIZATION, HeaderName::from_static("x-api-key")])
//!     // These header fields tell a client how many requests a rate limit still allows.
//!     .expose_headers(["retry-after", "ratelimit", "ratelimit-policy"].map(HeaderName::from_static));
//! # let _: axum::Router = axum::Router::new().layer(layer);
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod exchange;
mod grant;
mod rejection;
mod require_key;

use std::future::ready;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{MethodRouter, any_service};
use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Reply};
use tower::service_fn;

pub use delivery_core;

pub use self::grant::Grant;
pub use self::rejection::GrantRejection;
pub use self::require_key::{RequireKey, RequireKeyLayer};

/// Returns a router with every endpoint that [the service is configured for](Endpoint::served_by). Merge it into, or
/// nest it under, the host application's router.
///
/// The router has no fallback. An application without routes of its own may use [`unknown`].
pub fn router<S: Clone + Send + Sync + 'static>(delivery: Delivery) -> Router<S> {
    let served: Vec<Endpoint> = Endpoint::served_by(&delivery).collect();
    router_of(delivery, served)
}

/// Returns a router with these endpoints. Merge it into, or nest it under, the host application's router.
///
/// If you leave out `Endpoint::Product`, e-mails still contain the URL of that endpoint. Replace the URL with
/// [`mail_links`](delivery_core::delivery::Builder::mail_links).
///
/// ```
/// use delivery_axum::delivery_core::{Delivery, http::Endpoint};
///
/// fn for_buyers(delivery: Delivery) -> axum::Router {
///     delivery_axum::router_of(delivery, [Endpoint::Validate, Endpoint::Product])
/// }
/// ```
#[expect(clippy::needless_pass_by_value, reason = "hosts pass the handle that the router then keeps")]
pub fn router_of<S: Clone + Send + Sync + 'static>(
    delivery: Delivery,
    endpoints: impl IntoIterator<Item = Endpoint>,
) -> Router<S> {
    endpoints.into_iter().fold(Router::new(), |router, endpoint| {
        router.route(endpoint.path(), method_router(delivery.clone(), endpoint))
    })
}

/// Returns one endpoint, for a path that the host application chooses. The endpoint takes every method, because the API
/// itself answers requests with a wrong method.
///
/// ```
/// use axum::Router;
/// use delivery_axum::delivery_core::{Delivery, http::Endpoint};
///
/// fn webhooks(delivery: Delivery) -> Router {
///     Router::new().route("/hooks/orders", delivery_axum::method_router(delivery, Endpoint::Order))
/// }
/// ```
pub fn method_router<S: Clone + Send + Sync + 'static>(delivery: Delivery, endpoint: Endpoint) -> MethodRouter<S> {
    // Pass a service. If this were a handler function, axum would convert it into a service again for each request.
    any_service(service_fn(move |request: Request| exchange::answer(endpoint, delivery.clone(), request)))
}

/// Returns a fallback for an application that has only the API and its pages. The fallback answers any path with
/// [`Reply::unknown`]: programs get the API's 404, and browsers a page.
///
/// ```
/// use delivery_axum::delivery_core::Delivery;
///
/// fn app(delivery: Delivery) -> axum::Router {
///     delivery_axum::router(delivery.clone()).fallback_service(delivery_axum::unknown(delivery))
/// }
/// ```
pub fn unknown(delivery: Delivery) -> MethodRouter {
    any_service(service_fn(move |request: Request| {
        let path = request.uri().path().to_owned();
        let call = Call { path: Some(path), ..exchange::call(request.into_parts().0) };
        ready(Ok(exchange::response(Reply::unknown(&delivery, &call))))
    }))
}

/// Returns the API's response to an unknown path. A host application may use it as its fallback.
#[expect(clippy::unused_async, reason = "axum takes async functions as handlers")]
pub async fn not_found() -> Response {
    exchange::response(Reply::not_found())
}

/// Returns the API's response to a request whose handler panicked, for a layer that catches panics.
#[must_use]
pub fn internal() -> Response {
    exchange::response(Reply::internal())
}

/// Runs the README's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
