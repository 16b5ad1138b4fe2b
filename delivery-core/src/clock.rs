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

use chrono::{DateTime, Days, NaiveDate, SecondsFormat, SubsecRound, Utc};

use crate::text::Invalid;

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

/// Parses a timestamp in RFC 3339, or a date. A date becomes 00:00 UTC of the day that is `days` days after it: pass 0
/// for the beginning of the date, and 1 for its end.
pub(crate) fn instant(text: &str, days: u64) -> Result<DateTime<Utc>, Invalid> {
    const EXPECTED: Invalid =
        Invalid::expected("must be a date such as 2026-11-21, or a time such as 2026-11-21T10:00:00Z");
    let of_date = |date: NaiveDate| Some(date.checked_add_days(Days::new(days))?.and_hms_opt(0, 0, 0)?.and_utc());
    let found = text.parse().ok().and_then(of_date);
    found.or_else(|| DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())).ok_or(EXPECTED)
}

/// Drops the fraction of a second, so that the stored time equals the time shown.
pub(crate) fn whole_seconds(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_in_its_period_as_a_whole() {
        for (text, first, end) in [
            ("2026-11-21", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"),
            ("2024-02-29", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
            ("2026-11-21T10:00:00+02:00", "2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"),
        ] {
            assert_eq!(timestamp(instant(text, 0).unwrap()), first);
            assert_eq!(timestamp(instant(text, 1).unwrap()), end);
        }
        for text in ["", "2026-02-30", "2026-11-21 10:00", "yesterday", "2026-11-21T10:00:00", "+262142-12-31"] {
            assert!(instant(text, 1).is_err(), "{text}");
        }
    }
}
