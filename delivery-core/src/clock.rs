//! The source of time, which a test can replace.
//!
//! A service has an [`Arc<dyn Clock>`](Clock), by default a [`SystemClock`], which reads the clocks of the operating
//! system. With another clock, a test runs through five days of mail retries in a millisecond.
//!
//! # Implementing `Clock`
//!
//! ```
//! use std::time::Duration;
//! use chrono::{DateTime, Utc};
//! use delivery_core::Clock;
//!
//! /// A clock that stands still.
//! #[derive(Debug)]
//! struct Frozen(DateTime<Utc>);
//!
//! impl Clock for Frozen {
//!     fn now(&self) -> DateTime<Utc> { self.0 }
//!     fn monotonic(&self) -> Duration { Duration::ZERO }
//! }
//! ```

use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};

/// A source of time. See the [module documentation](self) for an example of an implementation.
///
/// # To ensure correctness
///
/// * [`monotonic`](Self::monotonic) must never go back. Rate limits, for example, are measured with it.
/// * [`now`](Self::now) is the real date and time, because it decides when keys expire. It may jump in either
///   direction, for example when an operator sets the clock.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the current date and time.
    fn now(&self) -> DateTime<Utc>;

    /// Returns the time elapsed since some fixed instant of this process.
    fn monotonic(&self) -> Duration;
}

/// Reads the operating system's clocks. A service uses this clock by default.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SystemClock;

static ORIGIN: LazyLock<Instant> = LazyLock::new(instant_now);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this file owns the system's clocks")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn monotonic(&self) -> Duration {
        ORIGIN.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "this file owns the system's clocks")]
fn instant_now() -> Instant {
    Instant::now()
}

/// Formats an instant as every response and e-mail shows it: RFC 3339, UTC, whole seconds, `Z`.
///
/// ```
/// # use chrono::DateTime;
/// let at = DateTime::from_timestamp(1_795_255_200, 999_000_000).unwrap();
/// assert_eq!(delivery_core::clock::timestamp(at), "2026-11-21T10:00:00Z");
/// ```
#[must_use]
pub fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Drops the fraction of a second, so that the stored time equals the time shown.
pub(crate) fn whole_seconds(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(0)
}
