//! The sliding window of one subject: a log of admitted requests. The window reads no clock: callers pass the time.

use std::collections::VecDeque;
use std::time::Duration;

use arrayvec::ArrayVec;

use super::{Decision, Quota};

/// The number of instants that a window stores without a separate allocation. With this number, a window takes 64
/// bytes, which is one cache line. With a million subjects, each further cache line that is read costs a wait for
/// memory.
const FEW: usize = 6;

/// The instants at which requests of one subject were admitted, in nanoseconds, oldest first. Instants older than a
/// window are removed.
///
/// Only such a log makes a sliding window exact. A counter per fixed window admits up to twice the limit around the
/// boundary of two windows. Token buckets (GCRA) admit `limit` requests at once and then more within the same window.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) enum Window {
    Few(ArrayVec<u64, FEW>),
    Many(VecDeque<u64>),
}

impl Window {
    /// Returns a window in which one request was admitted.
    pub(super) fn of(admitted: u64) -> Self {
        Self::Few(ArrayVec::from_iter([admitted]))
    }

    /// Returns the instant of the counted request if there is exactly one, and `None` otherwise.
    pub(super) fn only(&self) -> Option<u64> {
        self.oldest().filter(|_| self.len() == 1)
    }

    /// Decides about a request at `now`, and counts it if it passes.
    pub(super) fn admit(&mut self, now: u64, quota: Quota) -> Decision {
        self.forget(now, quota);
        let limit = quota.limit().get() as usize;
        let counted = self.len();
        // The request fits once fewer than `limit` requests are counted. This is when the request that was admitted at
        // `blocking` leaves the window.
        if let Some(blocking) = counted.checked_sub(limit).and_then(|index| self.get(index)) {
            return Decision::Refused { retry_after: until_left(blocking, now, quota) };
        }
        self.push(now);
        let oldest = self.oldest().unwrap_or(now);
        let remaining = u32::try_from(limit - counted - 1).unwrap_or(u32::MAX);
        Decision::Admitted { remaining, reset: until_left(oldest, now, quota) }
    }

    /// Returns whether all counted requests have left a window of this length. If so, this log can be removed, because
    /// it no longer affects the decisions about later requests.
    pub(super) fn is_over(&self, now: u64, length: Duration) -> bool {
        let latest = self.len().checked_sub(1).and_then(|index| self.get(index));
        latest.is_none_or(|latest| left(latest, now, length))
    }

    fn forget(&mut self, now: u64, quota: Quota) {
        let gone = |admitted: &u64| left(*admitted, now, quota.window());
        match self {
            Self::Few(few) => drop(few.drain(..few.iter().take_while(|at| gone(at)).count())),
            Self::Many(many) => while many.pop_front_if(|at| gone(at)).is_some() {},
        }
    }

    fn push(&mut self, now: u64) {
        match self {
            Self::Few(few) if few.is_full() => {
                *self = Self::Many(few.iter().copied().chain([now]).collect());
            }
            Self::Few(few) => few.push(now),
            Self::Many(many) => many.push_back(now),
        }
    }

    fn oldest(&self) -> Option<u64> {
        self.get(0)
    }

    fn get(&self, index: usize) -> Option<u64> {
        match self {
            Self::Few(few) => few.get(index).copied(),
            Self::Many(many) => many.get(index).copied(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::Few(ArrayVec::new())
    }
}

/// Converts an instant to nanoseconds. The highest bit of the result stays 0 for 292 years, so it can be used as a
/// flag.
pub(super) fn nanoseconds(instant: Duration) -> u64 {
    u64::try_from(instant.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether a request has left a window of this length.
pub(super) fn left(admitted: u64, now: u64, length: Duration) -> bool {
    Duration::from_nanos(now.saturating_sub(admitted)) >= length
}

fn until_left(admitted: u64, now: u64, quota: Quota) -> Duration {
    quota.window().saturating_sub(Duration::from_nanos(now.saturating_sub(admitted)))
}

#[cfg(test)]
#[expect(clippy::unchecked_time_subtraction, reason = "times only grow here")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_window_of_few_is_a_cache_line() {
        // An entry of a `Slab<Window>` is as large as an `Option<Window>`.
        assert_eq!((size_of::<Option<Window>>(), align_of::<Window>()), (64, 64));
    }

    proptest! {
        /// Compares with a brute-force window: exactly the requests that fit are admitted, and `retry_after` is exact
        /// to the nanosecond.
        #[test]
        fn admits_exactly_what_fits(limit in 1_u32..12, steps in prop::collection::vec(0_u64..40_000, 1..200)) {
            let quota = Quota::per_minute(limit).unwrap();
            let mut window = Window::default();
            let mut admitted: Vec<Duration> = Vec::new();
            let mut now = Duration::ZERO;
            for step in steps {
                now += Duration::from_millis(step);
                let inside = |at: Duration| admitted.iter().filter(|a| at - **a < quota.window()).count();
                let fits = inside(now) < limit as usize;
                match window.admit(nanoseconds(now), quota) {
                    Decision::Admitted { remaining, reset } => {
                        prop_assert!(fits);
                        prop_assert_eq!(remaining as usize, limit as usize - inside(now) - 1);
                        let oldest = admitted.iter().find(|a| now - **a < quota.window()).copied().unwrap_or(now);
                        prop_assert_eq!(reset, oldest + quota.window() - now);
                        admitted.push(now);
                    }
                    Decision::Refused { retry_after } => {
                        prop_assert!(!fits);
                        prop_assert!(inside(now + retry_after) < limit as usize);
                        prop_assert_eq!(inside(now + retry_after - Duration::from_nanos(1)), limit as usize);
                    }
                }
                prop_assert!(window.len() <= limit as usize);
            }
        }
    }
}
