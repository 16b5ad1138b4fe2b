//! Test doubles, proptest strategies and conformance cases for `delivery-core`: for its own tests, and for yours.
//!
//! * [`ManualClock`] and [`SeededEntropy`] make time and chance inputs; [`RecordingMailer`] keeps what it was given and
//!   fails when told to.
//! * [`strategies`] generate keys, terms, changes and histories, to prove a rule of your own.
//! * [`conformance`] has cases for what [`Ledger`](delivery_core::store::Ledger), [`Catalog`](delivery_core::store::Catalog) and
//!   [`RateLimiter`](delivery_core::limit::RateLimiter) promise, to run over an implementation of your own. What a store promises
//!   for closing and reopening has none yet.
//!
//! Failures panic, as tests do.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "tests report by panicking"
)]

pub mod conformance;
pub mod strategies;

mod chance;
mod fixture;
mod mailer;
mod time;

pub use self::chance::SeededEntropy;
pub use self::fixture::Fixture;
pub use self::mailer::{Behaviour, RecordingMailer};
pub use self::time::ManualClock;

/// The README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
