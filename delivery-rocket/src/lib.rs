//! The delivery API in a Rocket application.
//!
//! Attach a [`DeliveryFairing`] to mount every endpoint, send e-mails from lift-off on, and finish open work at
//! shutdown. [`Grant`] guards the host application's own routes with a key. [`delivery_core::http`] decides what the
//! API answers; this crate only converts requests and responses.
//!
//! ```
//! use std::sync::Arc;
//! use delivery_rocket::delivery_core::Delivery;
//! use delivery_rocket::DeliveryFairing;
//!
//! # use delivery_testing::{MemoryStore, RecordingMailer};
//! let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
//! let (signing, webhook, admin) = ("a signing secret".parse()?, "a webhook secret".parse()?, "the-seller's-token".parse()?);
//! let delivery = Delivery::builder(store, mailer, signing).webhook_secret(webhook).admin_token(admin).build();
//! let app = rocket::build().attach(DeliveryFairing::new(delivery).at("/shop"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rocket logs the URI of each request through the `log` crate, and the query of a URI may contain a key. To keep keys
//! out of the log, set Rocket's log level to [`LogLevel::Off`](rocket::config::LogLevel). If the application has
//! another logger for the `log` crate, this logger must exclude the target `rocket`.
//!
//! Rocket trusts `X-Real-IP` from any client. This crate uses only the peer address of the connection, and the service
//! trusts only its [`trusted_proxies`](delivery_core::delivery::Builder::trusted_proxies).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod exchange;
mod fairing;
mod grant;
mod rejection;
mod require_key;

use delivery_core::{ErrorCode, http::Reply};
use rocket::catcher::{self, Catcher};
use rocket::http::{Status, StatusClass};

pub use delivery_core;

pub use self::fairing::DeliveryFairing;
pub use self::grant::{Grant, OptionalGrant};
pub use self::rejection::GrantRejection;
pub use self::require_key::RequireKey;

/// Returns catchers for an application that serves only the API and its pages:
/// `rocket.register("/", delivery_rocket::catchers())`. With them, the API answers requests to paths without a route,
/// and requests whose handler panicked. If a route of the application answers with another error status, such as 401 or
/// 422, Rocket's default response is sent.
#[must_use]
pub fn catchers() -> Vec<Catcher> {
    fn answer<'r>(status: Status, request: &'r rocket::Request<'_>) -> catcher::BoxFuture<'r> {
        let is_unknown = request.route().is_none() || status.code == ErrorCode::NotFound.status();
        Box::pin(async move {
            match status.class() {
                StatusClass::ServerError => Ok(exchange::response(Reply::internal())),
                _ if is_unknown => Ok(exchange::response(exchange::unknown(request, status))),
                _ => Catcher::default().handler.handle(status, request).await,
            }
        })
    }
    vec![Catcher::new(None, answer)]
}

/// Runs the README's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
