//! Metrics, recorded with the `metrics` crate. Nothing is recorded unless the host application installs a recorder.
//!
//! The labels are endpoints, statuses, codes, platforms and outcomes. Each of these has few values, so the number of
//! time series does not grow with the number of users.

use std::time::Duration;

use ::metrics::{Gauge, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::clock::{Clock, SystemClock};
use crate::error::ErrorCode;

/// Describes each metric to the installed recorder, for example for the `# HELP` lines of Prometheus.
pub fn describe_metrics() {
    for (name, unit, text) in COUNTERS {
        describe_counter!(name, unit, text);
    }
    for (name, unit, text) in HISTOGRAMS {
        describe_histogram!(name, unit, text);
    }
    for (name, unit, text) in GAUGES {
        describe_gauge!(name, unit, text);
    }
    // Start these counters at 0: if a counter first appears with a higher value, Prometheus' `rate` misses that
    // increase.
    counter!("delivery_keys_issued_total").increment(0);
    counter!("delivery_uses_total").increment(0);
    for outcome in ["sent", "retried", "failed"] {
        counter!("delivery_messages_total", "outcome" => outcome).increment(0);
    }
}

const COUNTERS: [(&str, Unit, &str); 7] = [
    ("delivery_requests_total", Unit::Count, "Requests answered, by endpoint and status"),
    ("delivery_keys_issued_total", Unit::Count, "Keys issued"),
    ("delivery_uses_total", Unit::Count, "Uses counted"),
    ("delivery_refusals_total", Unit::Count, "Keys refused, by code"),
    (
        "delivery_messages_total",
        Unit::Count,
        "Attempts to send e-mails and webhooks, by outcome: sent, retried or failed for good",
    ),
    ("delivery_platform_events_total", Unit::Count, "Events of commerce platforms, by platform and outcome"),
    ("delivery_events_dropped_total", Unit::Count, "Events that were dropped because observers were too slow"),
];
const HISTOGRAMS: [(&str, Unit, &str); 3] = [
    ("delivery_request_seconds", Unit::Seconds, "How long requests took to answer, by endpoint"),
    ("delivery_commit_seconds", Unit::Seconds, "How long commits took"),
    ("delivery_batch_operations", Unit::Count, "Operations that shared a commit"),
];
const GAUGES: [(&str, Unit, &str); 5] = [
    ("delivery_queue_depth", Unit::Count, "Operations that waited for the last commit to begin"),
    ("delivery_messages_queued", Unit::Count, "E-mails and webhooks that wait to be sent"),
    ("delivery_messages_failed", Unit::Count, "E-mails and webhooks that failed for good and are not retried"),
    ("delivery_message_oldest_seconds", Unit::Seconds, "Age of the oldest e-mail or webhook that waits to be sent"),
    ("delivery_platform_events_waiting", Unit::Count, "Events of commerce platforms that need the seller's attention"),
];

/// The time at which a measured operation began.
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

pub(crate) fn platform_event(platform: &str, outcome: &'static str) {
    counter!("delivery_platform_events_total", "platform" => platform.to_owned(), "outcome" => outcome).increment(1);
}

/// Sets the gauges for messages that wait to be sent, messages that failed, platform events that need the seller's
/// attention, and the age of the oldest waiting message.
pub(crate) fn backlog([queued, failed, needs_attention]: [u64; 3], oldest: Option<chrono::TimeDelta>) {
    #[expect(clippy::cast_precision_loss, reason = "no store has as many rows as a float can count")]
    let set = |gauge: Gauge, count: u64| gauge.set(count as f64);
    set(gauge!("delivery_messages_queued"), queued);
    set(gauge!("delivery_messages_failed"), failed);
    set(gauge!("delivery_platform_events_waiting"), needs_attention);
    let age = oldest.map_or(0.0, |age| age.as_seconds_f64().max(0.0));
    gauge!("delivery_message_oldest_seconds").set(age);
}

pub(crate) fn event_dropped() {
    counter!("delivery_events_dropped_total").increment(1);
}

#[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
pub(crate) fn committed(operations: usize, waiting: usize, started: Started) {
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    histogram!("delivery_batch_operations").record(count(operations));
    histogram!("delivery_commit_seconds").record(seconds(started));
    gauge!("delivery_queue_depth").set(count(waiting));
}
