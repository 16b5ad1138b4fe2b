//! Limits how often a log line is written: at most once a second. A failure that affects many requests is therefore
//! logged only once a second. Each line includes the number of lines that were suppressed since the previous line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};

/// The shortest time between two lines, in milliseconds.
const PAUSE: u64 = 1000;

/// Limits one kind of log line.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// When the next line may be written, in milliseconds of the monotonic clock.
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl Throttle {
    pub(crate) const fn new() -> Self {
        Self { next: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Decides whether a line may be written now. If so, returns the number of lines that were suppressed since the
    /// last written line. Otherwise counts the line as suppressed and returns `None`.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(u64::try_from(SystemClock.monotonic().as_millis()).unwrap_or(u64::MAX))
    }

    fn admit_at(&self, now: u64) -> Option<u64> {
        let next = |next: u64| (next <= now).then(|| now.saturating_add(PAUSE));
        if self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

/// Writes a log line of the given level, with the given fields and message, at most once a second. Adds the field
/// `more`: the number of lines that were suppressed since the previous line. A field `error` must come first, and must
/// be a reference to an error.
macro_rules! log_seldom {
    ($level:ident, error = $error:expr, $($rest:tt)+) => {{
        static LINE: $crate::throttle::Throttle = $crate::throttle::Throttle::new();
        if let Some(more) = LINE.admit() {
            tracing::$level!(error = $error as &dyn std::error::Error, more, $($rest)+);
        }
    }};
    ($level:ident, $($rest:tt)+) => {{
        static LINE: $crate::throttle::Throttle = $crate::throttle::Throttle::new();
        if let Some(more) = LINE.admit() {
            tracing::$level!(more, $($rest)+);
        }
    }};
}
pub(crate) use log_seldom;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_were_left_out() {
        let throttle = Throttle::new();
        for (now, admitted) in [(0, Some(0)), (0, None), (999, None), (1000, Some(2)), (1999, None), (5000, Some(1))] {
            assert_eq!(throttle.admit_at(now), admitted, "{now}");
        }
    }
}
