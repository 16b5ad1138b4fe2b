//! A pause after a receiver could not be reached.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// The length of the pause. Without it, every due message would take a connection and wait for the receiver.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// When a receiver was last not reached, if it was not reached since. Clones share this state.
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<Mutex<Option<DateTime<Utc>>>>);

impl Health {
    /// Returns whether a message may be sent to the receiver now. After a pause, only one message may; the others wait
    /// until that one reaches the receiver, or until another pause is over.
    pub(super) fn may_try(&self, now: DateTime<Utc>) -> bool {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = *failed else { return true };
        let pause = now.signed_duration_since(since);
        // A clock that goes back must not make the pause longer.
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
