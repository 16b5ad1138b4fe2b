//! Test doubles, proptest strategies, a model and conformance cases for `delivery-core`: for its own tests, and for
//! yours.
//!
//! * [`Shop`] is a whole service in memory, against which you test a host application: [`paid`](Shop::paid),
//!   [`messages`](Shop::messages), [`advance`](Shop::advance).
//! * [`ManualClock`] and [`SeededEntropy`] let a test control time and randomness. [`RecordingMailer`] records the
//!   messages that it accepts, and fails on demand. [`Faulty`] makes any store fail on demand. [`MemoryStore`] is a
//!   store in memory.
//! * [`strategies`] generate keys, orders, products, terms, changes, histories and hostile text, for tests of your own
//!   rules.
//! * [`histories`] runs generated histories of the whole service on your store and compares the results with a naive
//!   model.
//! * [`mod@conformance`] has cases that check the promises of a store, a catalog and a limiter. You run them on your
//!   own implementation; a [`Fixture`] opens your store for them.
//! * [`race`] starts calls at the same moment and makes them yield to each other, for your own tests of races.
//!
//! # Guides
//!
//! | to write | read | test it with |
//! |---|---|---|
//! | a store | [`delivery_core::store`](delivery_core::store#implementing-storage) | [`conformance!`]`(ledger, …)`, `(reopened, …)`, `(shared, …)`, [`histories::check`] |
//! | a catalog | [`delivery_core::store`](delivery_core::store#implementing-catalog) | [`Shop::with`] and [`Builder::catalog`](delivery_core::delivery::Builder::catalog); `conformance!(catalog, …)` if it can be edited |
//! | a mailer | [`delivery_core::mail`] | give it to a [`Builder`](delivery_core::Delivery::builder) over a [`Faulty`] store |
//! | a limiter | [`delivery_core::limit`] | [`conformance::RATE_LIMITER`] |
//! | a [`Rule`](delivery_core::key::Rule) that the service asks | [`delivery_core::key::Rule`] | [`rules::check`], and [`histories::check_ruled`] on your store |
//! | another rule for keys | [`delivery_core::key::Key::apply`] | [`strategies`], and [`histories::Model`] for a rule about histories |
//!
//! # Example: a rule of your own
//!
//! ```
//! use delivery_core::key::{Change, Key};
//! use delivery_testing::strategies;
//! use proptest::prelude::*;
//!
//! /// Percent off the next purchase.
//! fn discount(key: &Key) -> u8 {
//!     if key.revoked_at().is_none() && key.used() >= 10 { 5 } else { 0 }
//! }
//!
//! proptest!(|((granted, changes) in strategies::history())| {
//!     let mut key = Key::from(granted);
//!     for change in changes {
//!         let Ok(changed) = key.apply(&change) else { continue };
//!         if matches!(change, Change::Use { .. }) {
//!             prop_assert!(discount(&changed) >= discount(&key));
//!         }
//!         key = changed;
//!     }
//! });
//! ```
//!
//! # Example: a host's own test
//!
//! ```
//! use std::sync::Arc;
//! use delivery_core::http::{Call, Endpoint};
//! use delivery_testing::Shop;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let shop = Shop::new().await;
//! let sold = shop.paid("A-1").await;
//! let call = Call::new(http::Method::GET).query(format!("key={}", sold.text.expose()));
//! assert_eq!(Endpoint::Validate.call(&shop.delivery, call).await.status(), 200);
//! # }
//! ```
//!
//! # Stability
//!
//! Semver covers the names and signatures of this crate, not the cases. A later version may add cases and make others
//! stricter, so a store that passes today may fail with that version. Treat such a failure as a bug report.
//!
//! Every check panics if it fails.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "tests report by panicking"
)]

pub mod conformance;
pub mod histories;
pub mod rules;
pub mod strategies;

mod chance;
mod faulty;
mod fixture;
mod mailer;
mod memory;
mod racing;
mod shop;
mod time;

pub use self::chance::SeededEntropy;
pub use self::faulty::{Fault, Faulty};
pub use self::fixture::Fixture;
pub use self::mailer::{Behaviour, RecordingMailer};
pub use self::memory::MemoryStore;
pub use self::racing::{race, yielding};
pub use self::shop::Shop;
pub use self::time::ManualClock;

/// Runs the README's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
