//! The decision itself: a log of what was admitted, and no clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Decision, Quota};

/// The instants at which requests of one subject were admitted, oldest first; nothing older than a window is kept.
///
/// An exact sliding window needs the log: a counter per fixed window admits twice the limit around its edge, and
/// token buckets (GCRA) admit `limit` at once and then more within the same minute.
#[derive(Debug, Default)]
pub(super) struct Window {
    admitted: VecDeque<Duration>,
}

impl Window {
    /// Decides about a request at `now`, and counts it if it passes.
    pub(super) fn admit(&mut self, now: Duration, quota: Quota) -> Decision {
        self.forget(now, quota);
        let limit = quota.limit().get() as usize;
        let counted = self.admitted.len();
        // The request fits once fewer than `limit` are left, that is when this one leaves.
        if let Some(blocking) = counted.checked_sub(limit).and_then(|index| self.admitted.get(index)) {
            return Decision::Refused { retry_after: until_left(*blocking, now, quota) };
        }
        self.admitted.push_back(now);
        let oldest = self.admitted.front().copied().unwrap_or(now);
        let remaining = u32::try_from(limit - counted - 1).unwrap_or(u32::MAX);
        Decision::Admitted { remaining, reset: until_left(oldest, now, quota) }
    }

    /// Whether everything counted has left the window, so that forgetting the subject changes nothing.
    pub(super) fn is_over(&self, now: Duration, quota: Quota) -> bool {
        self.admitted.back().is_none_or(|latest| left(*latest, now, quota))
    }

    fn forget(&mut self, now: Duration, quota: Quota) {
        while self.admitted.front().is_some_and(|oldest| left(*oldest, now, quota)) {
            self.admitted.pop_front();
        }
    }
}

fn left(admitted: Duration, now: Duration, quota: Quota) -> bool {
    now.saturating_sub(admitted) >= quota.window()
}

fn until_left(admitted: Duration, now: Duration, quota: Quota) -> Duration {
    (admitted + quota.window()).saturating_sub(now)
}

#[cfg(test)]
#[expect(clippy::unchecked_time_subtraction, reason = "times only grow here")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a brute-force window: exactly what fits is admitted, and `retry_after` is neither early nor late.
        #[test]
        fn admits_exactly_what_fits(limit in 1_u32..6, steps in prop::collection::vec(0_u64..40_000, 1..200)) {
            let quota = Quota::per_minute(limit).unwrap();
            let mut window = Window::default();
            let mut admitted: Vec<Duration> = Vec::new();
            let mut now = Duration::ZERO;
            for step in steps {
                now += Duration::from_millis(step);
                let inside = |at: Duration| admitted.iter().filter(|a| at - **a < quota.window()).count();
                let fits = inside(now) < limit as usize;
                match window.admit(now, quota) {
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
                prop_assert!(window.admitted.len() <= limit as usize);
            }
        }
    }
}
