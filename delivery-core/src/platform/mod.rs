//! Commerce platforms: what their signed requests say.
//!
//! An adapter is a pure function. It takes the bytes of a request, its headers, its query and the time, and decides whether the
//! platform sent it, and what it says: that something was [paid](Event::Paid), [refunded](Event::Refunded) and so on. It knows
//! neither products nor keys, and decides nothing about the life of a key: it reads until when something is paid.
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
//! [`read`](Platform::read) judges the signature first, over the raw bytes and in constant time, and answers [`Unauthentic`]
//! without saying why. After that nothing is refused: what cannot be read is [`Unreadable`], and what means nothing here has no
//! events. Take products, order numbers and addresses only from fields that a buyer cannot fill.

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

pub use self::event::{Buyer, Event, Line, Sale, Word};
pub use self::gumroad::Gumroad;
pub use self::lemon_squeezy::LemonSqueezy;
pub use self::paddle::Paddle;
pub use self::polar::Polar;
pub use self::shopify::Shopify;
pub use self::signature::Secrets;
pub(crate) use self::signature::is_read;
pub use self::standard::Standard;
pub use self::stripe::Stripe;
pub use self::woocommerce::WooCommerce;
pub use crate::ledger::{Cause, ChargeRef, Dispute, Extent, Links, Recurrence, Refund, Returned, Standing, Term};
use crate::order::Source;

/// A platform that reports sales by signed requests.
pub trait Platform: Debug + Send + Sync + 'static {
    /// Its name: the last part of the path that it calls, and the source of its orders.
    fn name(&self) -> Source;

    /// Judges a request, and reads it.
    ///
    /// # Errors
    ///
    /// [`Unauthentic`] if the platform did not send it, or not now.
    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic>;
}

/// A request of a platform.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Request<'r> {
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// What follows the `?` of the address, still encoded; empty if nothing does.
    pub query: &'r str,
    /// The body, byte for byte as it was sent.
    pub body: &'r [u8],
    /// The time.
    pub now: DateTime<Utc>,
}

/// What a request comes to that may be answered 200.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it says something or it does not")]
pub enum Received {
    /// A test of the connection, which nobody has signed. It means nothing.
    Ping,
    /// An authentic notification.
    Notification(Notification),
}

/// An authentic request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Notification {
    /// Identifies it among those of its platform: a copy has the same identity.
    pub id: String,
    /// What the platform calls such an event, such as `orders/paid`; empty if it does not say.
    pub kind: String,
    /// Whether it is about a test purchase.
    pub is_test: bool,
    /// What it says: nothing, if it means nothing here.
    pub events: Result<Vec<Event>, Unreadable>,
}

/// The request is not the platform's, or too old. A stranger is told no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the request is not signed as the platform signs")]
#[expect(clippy::exhaustive_structs, reason = "it says no more")]
pub struct Unauthentic;

/// The platform has sent something that is not in its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot be read")]
#[expect(clippy::exhaustive_structs, reason = "it says no more")]
pub struct Unreadable;
