//! When to try a letter again.

use chrono::{DateTime, TimeDelta, Utc};

/// Seconds to wait after the first, second, … failure: soon for a hiccup, patiently for an outage; 12 hours thereafter.
const DELAYS: [u32; 7] = [5, 60, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600];
const LATER: u32 = 12 * 3600;
/// RFC 5321, 4.5.4.1: "the give-up time generally needs to be at least 4-5 days".
const GIVE_UP: TimeDelta = TimeDelta::days(5);
/// Up to a fifth more, so that letters that failed together do not all come back together.
const JITTER: f64 = 0.2;

/// When a letter is due that failed its `attempt`th time (from 1) at `now`, with `chance` in `0.0..1.0` for the jitter;
/// `None` if it is to be given up.
pub(super) fn due(attempt: u32, queued_at: DateTime<Utc>, now: DateTime<Utc>, chance: f64) -> Option<DateTime<Utc>> {
    let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    let seconds = f64::from(DELAYS.get(index).copied().unwrap_or(LATER)) * (1.0 + JITTER * chance);
    #[expect(clippy::cast_possible_truncation, reason = "at most 15 hours, in milliseconds")]
    let due = now.checked_add_signed(TimeDelta::milliseconds((seconds * 1000.0) as i64))?;
    let last = queued_at.checked_add_signed(GIVE_UP)?;
    if due <= last {
        Some(due)
    } else {
        // The last attempt is made on day five itself, once.
        (now < last).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_tried_for_five_days_at_growing_distances() {
        let queued: DateTime<Utc> = "2026-11-21T10:00:00Z".parse().unwrap();
        for (chance, tries) in [(0.0, 17), (0.999, 15)] {
            let (mut now, mut attempt, mut times) = (queued, 1, vec![0]);
            while let Some(due) = due(attempt, queued, now, chance) {
                assert!(due > now);
                (now, attempt) = (due, attempt + 1);
                times.push((now - queued).num_seconds());
            }
            assert_eq!(times.last(), Some(&(5 * 24 * 3600)));
            assert_eq!(times.len(), tries, "{times:?}");
            if chance == 0.0 {
                assert_eq!(times[..8], [0, 5, 65, 365, 2165, 9365, 27365, 63365]);
            }
        }
    }
}
