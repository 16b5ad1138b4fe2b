//! Decides when an e-mail is retried.

use chrono::{DateTime, TimeDelta, Utc};

use super::Failure;

/// Seconds to wait after the first, second, … failure: short delays for a brief fault, long delays for an outage.
/// [`LATER`] applies to all further failures.
const DELAYS: [u32; 7] = [5, 60, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600];
const LATER: u32 = 12 * 3600;
/// The number of [`DELAYS`] that are skipped after an attempt that may have been successful. The first delay is then
/// two hours.
const HOURS: usize = 4;
/// How long an e-mail is retried, counted from when it was queued. RFC 5321, 4.5.4.1: "the give-up time generally needs
/// to be at least 4-5 days".
const GIVE_UP: TimeDelta = TimeDelta::days(5);
/// The minimum number of attempts before an e-mail is given up because of its age. Normally, an e-mail has at least
/// this many attempts within [`GIVE_UP`]. It has fewer if the clock has jumped, if no server ran for a while, or if the
/// short delays were skipped after attempts that may have been successful.
const FEWEST: u32 = 15;
/// The maximum number of attempts, whatever the clock says. An e-mail reaches this number only if the clock is far
/// behind.
const MOST: u32 = 60;
/// How long an e-mail is retried after a refusal that is probably final.
const DOUBT: TimeDelta = TimeDelta::days(1);
/// The minimum number of attempts before an e-mail is given up because it is older than [`DOUBT`]. Normally, an e-mail
/// has at least this many attempts within that time. It has fewer if the clock has jumped, if no server ran for a
/// while, or if the short delays were skipped.
const IN_DOUBT: u32 = 7;
/// Each delay is extended at random by up to a fifth, so that e-mails that failed together are not all retried
/// together.
const JITTER: f64 = 0.2;
/// The maximum delay, in seconds. If a message is due more than 13 hours ahead, a store assumes that a clock was wrong,
/// and treats the message as due at once.
const LONGEST: f64 = 13.0 * 3600.0 - 60.0;

/// Returns when to retry an e-mail that failed at `now`. Returns `None` if the e-mail is to be given up. `attempt` is
/// the number of the attempt that failed, counted from 1. `chance` in `0.0..1.0` determines the jitter.
pub(super) fn due(
    failure: Failure,
    attempt: u32,
    (queued_at, now): (DateTime<Utc>, DateTime<Utc>),
    chance: f64,
) -> Option<DateTime<Utc>> {
    let age = now.signed_duration_since(queued_at);
    let skipped = match failure {
        _ if attempt >= MOST => return None,
        Failure::Permanent => return None,
        Failure::Doubtful if age >= DOUBT && attempt >= IN_DOUBT => return None,
        Failure::Doubtful | Failure::Transient | Failure::NotTried => 0,
        Failure::Unconfirmed => HOURS,
    };
    let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX).saturating_add(skipped);
    let seconds = f64::from(DELAYS.get(index).copied().unwrap_or(LATER)) * (1.0 + JITTER * chance);
    #[expect(clippy::cast_possible_truncation, reason = "at most 13 hours, in milliseconds")]
    let due = now.checked_add_signed(TimeDelta::milliseconds((seconds.min(LONGEST) * 1000.0) as i64))?;
    let last = queued_at.checked_add_signed(GIVE_UP)?;
    if due <= last {
        Some(due)
    } else if now < last {
        // Make one last attempt, exactly five days after the e-mail was queued.
        Some(last.min(due))
    } else {
        (attempt < FEWEST).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued() -> DateTime<Utc> {
        "2026-11-21T10:00:00Z".parse().unwrap()
    }

    /// Returns the times of all attempts, in seconds after the e-mail was queued.
    fn tries(failure: Failure, chance: f64) -> Vec<i64> {
        let (mut now, mut attempt, mut times) = (queued(), 1, vec![0]);
        while let Some(due) = due(failure, attempt, (queued(), now), chance) {
            assert!(due > now && due - now < TimeDelta::hours(13));
            (now, attempt) = (due, attempt + 1);
            times.push((now - queued()).num_seconds());
        }
        times
    }

    #[test]
    fn messages_are_tried_for_five_days_at_growing_distances() {
        for (chance, count) in [(0.0, 17), (0.999, 16)] {
            let times = tries(Failure::Transient, chance);
            assert_eq!(times.last(), Some(&(5 * 24 * 3600)));
            assert_eq!(times.len(), count, "{times:?}");
            assert!(count >= FEWEST as usize, "an ordinary outage is not given up by attempts");
        }
        assert_eq!(tries(Failure::Transient, 0.0)[..8], [0, 5, 65, 365, 2165, 9365, 27365, 63365]);
    }

    #[test]
    fn what_may_have_been_taken_is_tried_after_hours_and_what_may_be_final_for_a_day() {
        assert_eq!(tries(Failure::Unconfirmed, 0.0)[..4], [0, 7200, 25_200, 61_200]);
        for chance in [0.0, 0.999] {
            let times = tries(Failure::Doubtful, chance);
            assert!((86_400..=2 * 86_400).contains(times.last().unwrap()), "{times:?}");
        }
        assert_eq!(tries(Failure::Permanent, 0.0), [0]);
    }

    /// A clock that is days ahead for some seconds does not cause any e-mail to be given up. A clock that is behind
    /// does not cause endless retries.
    #[test]
    fn a_clock_that_jumps_gives_nothing_up() {
        for days in [6, 600] {
            let ahead = queued() + TimeDelta::days(days);
            for attempt in 1..FEWEST {
                assert!(due(Failure::Transient, attempt, (queued(), ahead), 0.5).is_some());
            }
            for attempt in 1..IN_DOUBT {
                assert!(due(Failure::Doubtful, attempt, (queued(), ahead), 0.5).is_some());
            }
            assert_eq!(due(Failure::Transient, FEWEST, (queued(), ahead), 0.5), None);
        }
        let behind = queued() - TimeDelta::days(400);
        assert!(due(Failure::Transient, MOST - 1, (queued(), behind), 0.5).is_some());
        assert_eq!(due(Failure::Transient, MOST, (queued(), behind), 0.5), None);
    }
}
