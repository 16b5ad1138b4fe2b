//! A clock that only a test moves.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use delivery_core::clock::Clock;

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(Mutex<(DateTime<Utc>, Duration)>);

impl ManualClock {
    /// Creates a clock that shows `now`.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        Self(Mutex::new((now, Duration::ZERO)))
    }

    /// Moves the clock forward, and its [`monotonic`](Clock::monotonic) time with it.
    pub fn advance(&self, by: Duration) {
        let mut time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let delta = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
        time.0 = time.0.checked_add_signed(delta).unwrap_or(DateTime::<Utc>::MAX_UTC);
        time.1 = time.1.saturating_add(by);
    }

    /// Sets the time, forward or back. The [`monotonic`](Clock::monotonic) time does not change.
    pub fn set(&self, now: DateTime<Utc>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = now;
    }
}

impl Default for ManualClock {
    /// Creates a clock that shows `2026-11-21T10:00:00Z`.
    fn default() -> Self {
        Self::at(DateTime::from_timestamp(1_795_255_200, 0).unwrap_or_default())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}
