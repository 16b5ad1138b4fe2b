//! Sells digital products through API keys. When a buyer pays, the commerce platform calls a webhook. This crate issues
//! one API key for the purchase and e-mails it to the buyer. From then on, it checks the key, serves the product and
//! counts uses, until the key expires or is used up.
//!
//! ```
//! use std::sync::Arc;
//! use delivery_core::key::{Keyring, Prefix};
//! use delivery_core::{Delivery, http::{Call, Endpoint}, product::NewProduct, store::SqliteStore};
//! # use delivery_core::mail::{MailError, Mailer, Message};
//! # #[derive(Debug)] struct Terminal;
//! # #[async_trait::async_trait] impl Mailer for Terminal {
//! #     async fn send(&self, _: &Message) -> Result<(), MailError> { Ok(()) }
//! # }
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let keyring = Keyring::new(Prefix::default(), &["a signing secret that is kept".parse()?])?;
//! let (webhook, admin) = ("the platform's secret".parse()?, "the-seller's-token".parse()?);
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! let store = Arc::new(SqliteStore::open("delivery.db").await?);
//! let delivery = Delivery::builder(store, Arc::new(Terminal), keyring).webhook_secret(webhook).admin_token(admin).build();
//! let running = delivery.start().await?;
//!
//! delivery.add_product(NewProduct::new("Field Guide")?.content("# Hello")?).await?;
//! let order = br#"{"order_id":"1001","product_id":1,"customer_email":"buyer@example.com","secret":"the platform's secret"}"#;
//! let reply = Endpoint::Order.call(&delivery, Call::new(http::Method::POST).json(&order[..])).await;
//! assert_eq!(reply.status(), 200);
//! running.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Mount the service with `delivery-axum` or `delivery-rocket`. A host application needs only five types to begin with:
//!
//! | type | what it is |
//! |---|---|
//! | [`Settings`] | the settings as text, from the environment or a framework's configuration |
//! | [`Builder`] | puts the service together: stores, mailer, limits, clock, terms |
//! | [`Delivery`] | the service: one handle, cheap to clone, with every use case |
//! | [`Running`] | the started service, which sends e-mails until it is stopped |
//! | [`Error`] | why a use case did not do what was asked |
//!
//! All other types are in the modules. These are, lowest layer first:
//!
//! | module | contents |
//! |---|---|
//! | [`clock`], [`entropy`] | the sources of time and of random bytes, which tests can replace |
//! | [`email`], [`order`], [`product`], [`post`], [`terms`], [`secret`] | values, checked when they are parsed |
//! | [`error`] | the error codes of the API |
//! | [`key`] | the rules of a key, its text, and the secrets that sign it |
//! | [`limit`] | exact rate limits |
//! | [`seller`] | who may call the seller's endpoints |
//! | [`ledger`] | the rules of sales and uses: operations and the rows that they write |
//! | [`store`] | the traits that a store implements, and the stores |
//! | `files` | the bytes of files, in an object store; feature `files` |
//! | `look` | the appearance of the pages; feature `pages` |
//! | [`platform`] | the webhooks of commerce platforms |
//! | [`mail`] | e-mails: templates, the outbox, mailers |
//! | [`observer`] | notifies the host application of events |
//! | `webhook` | signed requests to the host application's other programs; feature `webhooks` |
//! | [`delivery`] | the use cases |
//! | [`http`] | the HTTP API, independent of any web framework |
//!
//! # Features
//!
//! All features are additive and off by default. No feature changes the signature of a function.
//!
//! * `sqlite`: `store::SqliteStore`, a durable store in one file.
//! * `postgres`: `store::PostgresStore`, a store that many servers share.
//! * `redis`: `limit::RedisLimiter`, rate limits that many servers share.
//! * `smtp`: `mail::SmtpMailer`, and `mail::FolderMailer`, which writes `.eml` files.
//! * `pages`: `look` and `http::Page`, the HTML pages of the seller (the desk) and of the buyer.
//! * `files`: `delivery::Builder::files`, the files of products, in a folder or a bucket.
//! * `webhooks`: `webhook::Webhooks`, signed requests to other programs when keys are issued and changed.
//! * `spans`: `tracing` spans named `order`, `fetch`, `commit` and `message`. The spans contain the ids of keys, never
//!   the texts of keys.
//! * `utoipa`: `http::openapi`, the API's description as a value, which the host application can nest into its own.
//!
//! # Metrics
//!
//! Metrics are recorded through the crate `metrics`, if the host application installs a recorder:
//! `delivery_requests_total`, `delivery_request_seconds`, `delivery_keys_issued_total`, `delivery_uses_total`,
//! `delivery_refusals_total`, `delivery_messages_total`, `delivery_platform_events_total`,
//! `delivery_events_dropped_total`, `delivery_batch_operations`, `delivery_commit_seconds`, `delivery_queue_depth`.
//! [`describe_metrics`] describes all metrics to the recorder. [`Delivery::backlog`] also sets gauges for the messages
//! that wait or failed, and for the platform events that wait for the seller. The counters may miss a use or a sale if
//! the future that processes it is dropped before it completes.
//!
//! The crate `delivery-testing` has conformance cases, proptest strategies, and test doubles for the clock, the random
//! bytes and the mailer.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod clock;
mod cross_origin;
pub mod delivery;
pub mod email;
pub mod entropy;
pub mod error;
#[cfg(feature = "files")]
pub mod files;
mod host_ref;
pub mod http;
pub mod key;
mod language;
pub mod ledger;
pub mod limit;
#[cfg(feature = "pages")]
pub mod look;
pub mod mail;
#[cfg(any(feature = "postgres", feature = "smtp"))]
mod net;
pub mod observer;
pub mod order;
pub mod platform;
pub mod post;
pub mod product;
mod redact;
pub mod secret;
pub mod seller;
pub mod store;
mod sync;
mod telemetry;
pub mod terms;
mod text;
mod throttle;
#[cfg(feature = "webhooks")]
pub mod webhook;

/// The crate with the object stores in which [files](delivery::Builder::files) are kept.
#[cfg(feature = "files")]
pub use object_store;

/// Version 0.9 of sqlx, whose connections and transactions [stores](store) accept and return.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use sqlx;

pub use self::clock::{Clock, SystemClock};
pub use self::cross_origin::CrossOrigin;
#[doc(inline)]
pub use self::delivery::{Builder, Delivery, Error, Running, Settings};
pub use self::entropy::{Entropy, SystemEntropy};
pub use self::error::{ErrorCode, explain};
pub use self::host_ref::HostRef;
pub use self::language::Language;
pub use self::redact::redacted;
pub use self::telemetry::describe_metrics;
pub use self::text::Invalid;

/// Compiles and runs the examples in the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
