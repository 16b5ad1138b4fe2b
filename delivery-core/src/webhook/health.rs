//! The pause in requests to a receiver that could not be reached.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// The time for which a receiver gets no requests after it could not be reached. Without this pause, every due message
/// would open a connection and wait for the receiver in vain.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// When the current pause began; `None` if the last request reached the receiver, or if there was no request yet. A
/// pause begins in two cases:
///
/// - A request failed to reach the receiver.
/// - The previous pause is over, and one message is allowed to try again. The other messages wait for its result.
///
/// Clones share this state.
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<Mutex<Option<DateTime<Utc>>>>);

impl Health {
    /// Returns whether a message may be sent to the receiver now. After a pause, only one message may be sent. The
    /// other messages wait until the receiver answers that message, or until another pause is over.
    pub(super) fn may_try(&self, now: DateTime<Utc>) -> bool {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = *failed else { return true };
        let pause = now.signed_duration_since(since);
        // If the clock was set back, the pause is over too. Otherwise it could last much longer.
        let is_over = pause >= PAUSE || pause < TimeDelta::zero();
        if is_over {
            *failed = Some(now);
        }
        is_over
    }

    pub(super) fn reached(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn not_reached(&self, now: DateTime<Utc>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_tries_after_a_pause_and_all_when_it_was_reached() {
        let at = |seconds: i64| DateTime::from_timestamp(1_795_255_200 + seconds, 0).unwrap();
        let health = Health::default();
        assert!(health.may_try(at(0)) && health.may_try(at(0)));
        health.not_reached(at(0));
        assert!(!health.may_try(at(29)));
        assert_eq!([health.may_try(at(30)), health.may_try(at(30)), health.may_try(at(59))], [true, false, false]);
        health.reached();
        assert!(health.may_try(at(31)) && health.may_try(at(31)));
        health.not_reached(at(60));
        assert!(health.may_try(at(10)), "the clock went back");
    }
}
