//! The delivery API in a Rocket application.
//!
//! Attach a [`DeliveryFairing`], and every endpoint is there, letters are sent from lift-off on, and a shutdown finishes
//! what is under way; [`Grant`] guards routes of the host's own with a key. What the API answers is decided in
//! [`delivery_core::http`]; this crate converts.
//!
//! ```
//! use std::sync::Arc;
//! use delivery_core::{Delivery, store::MemoryStore, testing::RecordingMailer};
//! use delivery_rocket::DeliveryFairing;
//!
//! let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
//! let (signing, webhook, admin) = ("a signing secret".parse()?, "a webhook secret".parse()?, "the-seller's-token".parse()?);
//! let delivery = Delivery::builder(store, mailer, signing, webhook, admin).build();
//! let app = rocket::build().attach(DeliveryFairing::new(delivery).at("/shop"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rocket tells the `log` crate the address of requests with the query in it. Its own logger obeys
//! [`LogLevel::Off`](rocket::config::LogLevel); another one that takes in the `log` crate must leave out the target
//! `rocket`. Rocket believes `X-Real-IP` from anybody; this crate asks for the connection's peer alone, and the service
//! believes its [`trusted_proxies`](delivery_core::delivery::Builder::trusted_proxies).

mod body;
mod exchange;
mod fairing;
mod grant;

use delivery_core::http::Reply;
use rocket::catcher::{self, Catcher};
use rocket::http::{Status, StatusClass};
use rocket::request::Request;

pub use self::body::RequestBody;
pub use self::fairing::DeliveryFairing;
pub use self::grant::{Grant, Refused};

/// The API's answers to paths that are none of its own and to requests whose handler panicked, for an application that
/// has nothing else to answer: `rocket.register("/", delivery_rocket::catchers())`.
#[must_use]
pub fn catchers() -> Vec<Catcher> {
    fn answer<'r>(status: Status, request: &'r Request<'_>) -> catcher::BoxFuture<'r> {
        let reply = match status.class() {
            _ if status == grant::REFUSED => grant::refusal(request),
            StatusClass::ServerError => Reply::internal(),
            _ => Reply::not_found(),
        };
        Box::pin(async { Ok(exchange::response(reply)) })
    }
    vec![Catcher::new(None, answer)]
}
