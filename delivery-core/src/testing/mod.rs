//! Test doubles, proptest strategies and conformance cases, for this crate's tests and for yours.
//!
//! * [`ManualClock`] and [`SeededEntropy`] make time and chance inputs; [`RecordingMailer`] keeps what it was given and
//!   fails when told to.
//! * [`strategies`] generate keys, terms, changes and histories, to prove a rule of your own.
//! * [`conformance`] has a case for every sentence that [`Ledger`](crate::store::Ledger),
//!   [`Catalog`](crate::store::Catalog) and [`RateLimiter`](crate::limit::RateLimiter) promise, to run over an
//!   implementation of your own.
//!
//! Failures panic, as tests do. This module is behind the `testing` feature and is not for production.
//!
//! ```
//! use delivery_core::store::MemoryStore;
//! use delivery_core::testing::conformance;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! for case in conformance::LEDGER {
//!     case.run(|| async { MemoryStore::new() }).await;
//! }
//! # }
//! ```

#![expect(clippy::panic, clippy::expect_used, clippy::missing_panics_doc, reason = "tests report by panicking")]

pub mod conformance;
pub mod strategies;

mod chance;
mod mailer;
mod time;

pub use self::chance::SeededEntropy;
pub use self::mailer::{Behaviour, RecordingMailer};
pub use self::time::ManualClock;
