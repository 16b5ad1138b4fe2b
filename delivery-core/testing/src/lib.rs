//! Proofs for `delivery-core`: for its own tests, and for yours.
//!
//! * [`Shop`] is a whole service in memory, to test a host against: [`paid`](Shop::paid), [`messages`](Shop::messages),
//!   [`advance`](Shop::advance).
//! * [`ManualClock`] and [`SeededEntropy`] make time and chance inputs; [`RecordingMailer`] keeps what it was given and
//!   fails when told to; [`Faulty`] does the same around a store.
//! * [`strategies`] generate keys, orders, products, terms, changes, histories and hostile text, to prove a rule of your own.
//! * [`histories`] runs generated histories of the whole service over your store, against a naive model.
//! * [`conformance`] has cases for what a store, a catalog and a limiter promise, to run over your own; a [`Fixture`] says where
//!   yours comes from.
//!
//! # Stability
//!
//! Semver covers the names and signatures of this crate, not the cases: a later version may add cases and make others stricter,
//! so a store that passes today may fail then. Read such a failure as a bug report.
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
pub mod histories;
pub mod strategies;

mod chance;
mod faulty;
mod fixture;
mod mailer;
mod shop;
mod time;

pub use self::chance::SeededEntropy;
pub use self::faulty::{Fault, Faulty};
pub use self::fixture::Fixture;
pub use self::mailer::{Behaviour, RecordingMailer};
pub use self::shop::Shop;
pub use self::time::ManualClock;

/// The README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
