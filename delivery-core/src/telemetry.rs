//! Metrics, by the facade of the crate `metrics`: with the feature of that name, and without a recorder, nothing is measured.
//!
//! No label grows with users: endpoints, codes and outcomes have few values.

#[cfg(feature = "metrics")]
pub(crate) use measured::*;
#[cfg(not(feature = "metrics"))]
pub(crate) use nothing::*;

#[cfg(feature = "metrics")]
mod measured {
    use std::time::Duration;

    use ::metrics::{counter, histogram};

    use crate::clock::{Clock, SystemClock};
    use crate::error::ErrorCode;

    /// When something began.
    #[derive(Clone, Copy)]
    pub(crate) struct Started(Duration);

    pub(crate) fn started() -> Started {
        Started(SystemClock.monotonic())
    }

    fn seconds(started: Started) -> f64 {
        SystemClock.monotonic().saturating_sub(started.0).as_secs_f64()
    }

    pub(crate) fn answered(path: &'static str, status: ::http::StatusCode, started: Started) {
        counter!("delivery_requests_total", "endpoint" => path, "status" => status.as_str().to_owned()).increment(1);
        histogram!("delivery_request_seconds", "endpoint" => path).record(seconds(started));
    }

    pub(crate) fn issued() {
        counter!("delivery_keys_issued_total").increment(1);
    }

    pub(crate) fn used() {
        counter!("delivery_uses_total").increment(1);
    }

    pub(crate) fn refused(code: ErrorCode) {
        counter!("delivery_refusals_total", "code" => code.as_str()).increment(1);
    }

    pub(crate) fn message(outcome: &'static str) {
        counter!("delivery_messages_total", "outcome" => outcome).increment(1);
    }

    pub(crate) fn event_dropped() {
        counter!("delivery_events_dropped_total").increment(1);
    }

    #[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
    pub(crate) fn committed(operations: usize, waiting: usize, started: Started) {
        let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        histogram!("delivery_batch_operations").record(count(operations));
        histogram!("delivery_commit_seconds").record(seconds(started));
        ::metrics::gauge!("delivery_queue_depth").set(count(waiting));
    }
}

#[cfg(not(feature = "metrics"))]
mod nothing {
    use crate::error::ErrorCode;

    #[derive(Clone, Copy)]
    pub(crate) struct Started;

    pub(crate) fn started() -> Started {
        Started
    }

    pub(crate) fn answered(_: &'static str, _: ::http::StatusCode, _: Started) {}

    pub(crate) fn issued() {}

    pub(crate) fn used() {}

    pub(crate) fn refused(_: ErrorCode) {}

    pub(crate) fn message(_: &'static str) {}

    pub(crate) fn event_dropped() {}

    #[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
    pub(crate) fn committed(_: usize, _: usize, _: Started) {}
}
