//! Reads the signed requests in which commerce platforms report events.
//!
//! An adapter is the code for one platform. It implements [`Platform`], as a pure function of the request and the time.
//! The adapter verifies that the platform sent the request, and returns the events that the request reports, such as a
//! [payment](Event::Paid) or a [refund](Event::Refunded). An adapter has no access to products or keys, and does not
//! decide whether a key is valid. It only reports what the request says about payments, subscriptions and buyers.
//!
//! ```
//! use delivery_core::platform::{Event, Platform, Received, Request, Secrets, Standard};
//! use http::HeaderMap;
//!
//! let secrets = Secrets::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
//! let platform = Standard::new(&secrets)?;
//! let body = br#"{"type":"order.paid","timestamp":"2026-01-01T10:04:00.000000Z","data":{"order_id":"ORD-10001","product_id":7,"customer_email":"buyer@example.com","quantity":1,"amount_total":4900,"currency":"usd","test":false}}"#;
//! let mut headers = HeaderMap::new();
//! headers.insert("webhook-id", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W".parse()?);
//! headers.insert("webhook-timestamp", "1767261845".parse()?);
//! headers.insert("webhook-signature", "v1,UpL0tGaC5QB6//+zuJw6C6vbXv8VSs57D5lRE2BwU1E=".parse()?);
//! let now = "2026-01-01T10:04:06Z".parse()?;
//!
//! let Ok(Received::Notification(notification)) = platform.read(&Request { headers: &headers, query: "", body, now }) else {
//!     panic!("it is authentic");
//! };
//! let events = notification.events?;
//! assert!(matches!(&events[..], [Event::Paid(sale)] if sale.order.as_str() == "ORD-10001"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Implementing `Platform`
//!
//! [`read`](Platform::read) must verify the signature first, over the raw bytes and in constant time. If the request is
//! not authentic, `read` returns [`Unauthentic`] without saying why. An authentic request is never refused. If its
//! content cannot be read, the notification has [`Unreadable`] in place of events. If the request has no effect here,
//! the notification has no events. Take products, order numbers and addresses only from fields that a buyer cannot
//! fill.

mod event;
mod form;
mod gumroad;
mod json;
mod lemon_squeezy;
mod paddle;
mod polar;
mod shopify;
mod signature;
mod standard;
mod stripe;
mod woocommerce;

use std::fmt::Debug;

use chrono::{DateTime, Utc};
use http::HeaderMap;
use thiserror::Error;

pub use self::event::{Buyer, Event, Line, Sale, SubscriptionEvent};
pub use self::gumroad::Gumroad;
pub use self::lemon_squeezy::LemonSqueezy;
pub use self::paddle::Paddle;
pub use self::polar::Polar;
pub use self::shopify::Shopify;
pub use self::signature::Secrets;
pub use self::standard::Standard;
pub use self::stripe::Stripe;
pub use self::woocommerce::WooCommerce;
pub use crate::ledger::{
    Amount, Cause, ChargeRef, Currency, Dispute, Extent, Links, Recurrence, Refund, Returned, Standing, Term,
};
use crate::order::Source;

/// A platform that reports sales in signed requests.
///
/// # To ensure correctness
///
/// * Before reading anything from the body, verify the signature over the bytes of the body, in constant time. If the
///   platform does not sign, verify a token in the query string instead.
/// * Be pure: return the same result for the same request at the same time.
/// * Give each notification an id that is the same in every copy of the notification, and that no other notification
///   has.
pub trait Platform: Debug + Send + Sync + 'static {
    /// Returns the platform's name. It is the last segment of the webhook's path, and the source of the platform's
    /// orders.
    fn name(&self) -> Source;

    /// Verifies that the platform sent the request, and reads it.
    ///
    /// # Errors
    ///
    /// [`Unauthentic`] if the request has no valid signature or token of the platform, or the time of the signature is
    /// out of range.
    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic>;
}

/// A request from a platform.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Request<'r> {
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// The query string of the address, still percent-encoded; empty if there is none.
    pub query: &'r str,
    /// The body, byte for byte as the platform sent it.
    pub body: &'r [u8],
    /// The current time.
    pub now: DateTime<Utc>,
}

/// The content of a request that [`Platform::read`] accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a request is a ping or a notification")]
pub enum Received {
    /// An unsigned test of the connection. It has no effect.
    Ping,
    /// An authentic notification.
    Notification(Notification),
}

/// The content of an authentic request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Notification {
    /// Identifies the notification among all notifications of the platform. A repeated delivery has the same id.
    pub id: String,
    /// The platform's name for this type of event, such as `orders/paid`; empty if the platform does not say.
    pub kind: String,
    /// Whether the notification is about a test purchase.
    pub is_test: bool,
    /// The events of the notification; empty if it has no effect here.
    pub events: Result<Vec<Event>, Unreadable>,
}

/// The request has no valid signature or token of the platform, or the time of the signature is out of range. The
/// sender is not told which of these is the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the request is not signed as the platform signs")]
#[expect(clippy::exhaustive_structs, reason = "it has no fields and will get none")]
pub struct Unauthentic;

/// The content of an authentic request cannot be read, for example because it is not in the platform's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot be read")]
#[expect(clippy::exhaustive_structs, reason = "it has no fields and will get none")]
pub struct Unreadable;
