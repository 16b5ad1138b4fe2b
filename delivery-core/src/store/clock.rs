//! A time of day that is never set back while the process runs.
//!
//! An operator or NTP may set the system clock back by an hour. E-mails that are due would then wait an hour longer. A
//! store whose database has no clock of its own therefore measures, by the monotonic clock, how far the time of day has
//! fallen behind. It adds that difference to the times that its callers give. It compares only the *system's* two
//! clocks, so a caller's own clock, such as a test's, has no influence on the difference.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::{Clock, SystemClock};

/// The system clock counts as set back only if it is behind the time expected from the monotonic clock by more than
/// this.
const JUMP: TimeDelta = TimeDelta::seconds(2);

/// The last reading of both clocks at which the system clock was not set back: the time of day and the monotonic time.
#[derive(Debug, Default)]
pub(super) struct SteadyClock(Mutex<Option<(DateTime<Utc>, Duration)>>);

impl SteadyClock {
    /// Returns what `at` would be if the system clock had never been set back.
    pub(super) fn corrected(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let behind = self.behind(SystemClock.now(), SystemClock.monotonic());
        at.checked_add_signed(behind).unwrap_or(at)
    }

    fn behind(&self, wall: DateTime<Utc>, monotonic: Duration) -> TimeDelta {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = latest.and_then(|(wall, since)| {
            wall.checked_add_signed(TimeDelta::from_std(monotonic.saturating_sub(since)).ok()?)
        });
        let behind = expected.map_or(TimeDelta::zero(), |expected| expected.signed_duration_since(wall));
        if behind > JUMP {
            return behind;
        }
        *latest = Some((wall, monotonic));
        TimeDelta::zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_when_the_clock_is_set_back_and_follows_it_forward() {
        let steady = SteadyClock::default();
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        // Time of day, monotonic time, expected correction: all in seconds.
        for (wall, monotonic, behind) in [
            (1000, 0, 0),
            (1010, 10, 0),
            (1019, 20, 0),
            (900, 30, 129),
            (901, 31, 129),
            (2000, 40, 0),
            (1100, 50, 910),
            (9000, 60, 0),
        ] {
            let added = steady.behind(at(wall), Duration::from_secs(monotonic));
            assert_eq!(added, TimeDelta::seconds(behind), "{wall} {monotonic}");
        }
    }
}
