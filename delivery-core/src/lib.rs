//! A seller sells digital products; a commerce platform takes the money and calls a webhook. This crate issues one API key
//! for that purchase, e-mails it to the buyer, and from then on checks the key and serves the product, counting uses, until
//! it expires or is used up.
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
//! Mount it with `delivery-axum` or `delivery-rocket`. The modules, lowest layer first:
//!
//! | module | what it is |
//! |---|---|
//! | [`clock`], [`entropy`] | time and chance as inputs |
//! | [`email`], [`order`], [`product`], [`post`], [`terms`], [`secret`] | values, parsed once |
//! | [`limit`] | exact rate limits |
//! | [`key`] | the rules of a key, and its text |
//! | [`seller`] | who may call the seller's endpoints |
//! | [`store`] | the ports to storage; the stores |
//! | `look` | what the pages look like; feature `pages` |
//! | [`platform`] | what the requests of commerce platforms say |
//! | [`mail`] | the e-mail and its way to the buyer |
//! | [`observer`] | telling the host what has happened |
//! | `webhook` | telling its other programs, by signed requests; feature `webhooks` |
//! | [`delivery`] | the use cases |
//! | [`http`] | the use cases on the wire, as values |
//!
//! # Features
//!
//! All are additive and off by default; none changes a signature.
//!
//! * `sqlite`: `store::SqliteStore`, the durable store in one file.
//! * `postgres`: `store::PostgresStore`, which many servers share.
//! * `redis`: `limit::RedisLimiter`, limits that many servers share.
//! * `spans`: `tracing` spans `order`, `fetch`, `commit` and `message`, with ids of keys and never their texts.
//! * `utoipa`: `http::openapi`, the API's description as a value that nests into the host's own.
//! * `pages`: `look` and `http::Page`, the seller's desk and the buyer's page
//! * `webhooks`: `webhook::Webhooks`, signed requests to the host's own receivers when keys are issued and changed.
//! * `smtp`: `mail::SmtpMailer`, and `mail::FolderMailer`, which writes the same messages as `.eml` files.
//!
//! # Metrics
//!
//! Counters and histograms go to the facade of the crate `metrics`, for whatever recorder the host installs:
//! `delivery_requests_total`, `delivery_request_seconds`, `delivery_keys_issued_total`, `delivery_uses_total`,
//! `delivery_refusals_total`, `delivery_messages_total`, `delivery_platform_events_total`, `delivery_events_dropped_total`,
//! `delivery_batch_operations`, `delivery_commit_seconds`, `delivery_queue_depth`. [`describe_metrics`] describes them, and
//! [`Delivery::backlog`] sets gauges of what waits. A use or a sale whose caller goes away before its answer is not counted.
//!
//! `delivery-testing` has conformance cases, proptest strategies, and doubles for time, chance and mail.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod clock;
pub mod delivery;
pub mod email;
pub mod entropy;
pub mod error;
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

pub use self::clock::{Clock, SystemClock};
pub use self::delivery::Delivery;
pub use self::entropy::{Entropy, SystemEntropy};
pub use self::error::{ErrorCode, explain};
pub use self::host_ref::HostRef;
pub use self::language::Language;
pub use self::redact::redacted;
pub use self::telemetry::describe_metrics;
pub use self::text::Invalid;

/// The README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
