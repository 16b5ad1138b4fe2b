//! Rate limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Case, Limiter, cases};
use delivery_core::limit::{Decision, Identity, Policy, Quota, Subject};

cases![
    /// What every [`RateLimiter`](delivery_core::limit::RateLimiter) promises.
    RATE_LIMITER: Limiter, each_limiter_case,
    a_window_admits_its_limit_and_not_one_more,
    the_window_slides_and_has_no_edge_to_burst_over,
    a_refusal_counts_for_nothing,
    the_same_request_fits_exactly_after_the_time_given,
    subjects_and_policies_do_not_influence_each_other,
    of_racing_requests_exactly_the_limit_is_admitted,
];

fn quota(limit: u32) -> Quota {
    Quota::per_minute(limit).expect("1 or more")
}

fn subject(index: u128) -> Subject {
    Subject { policy: Policy::Product, identity: Identity::Key(index) }
}

async fn admit(port: &Limiter, subject: Subject, limit: u32) -> Decision {
    port.limiter.admit(&subject, quota(limit)).await.expect("decided")
}

fn passes(decision: Decision) -> bool {
    matches!(decision, Decision::Admitted { .. })
}

async fn a_window_admits_its_limit_and_not_one_more(port: Arc<Limiter>) {
    for remaining in (0..5).rev() {
        let decision = admit(&port, subject(1), 5).await;
        assert_eq!(decision, Decision::Admitted { remaining, reset: Duration::from_mins(1) });
    }
    assert_eq!(admit(&port, subject(1), 5).await, Decision::Refused { retry_after: Duration::from_mins(1) });
}

async fn the_window_slides_and_has_no_edge_to_burst_over(port: Arc<Limiter>) {
    port.clock.advance(Duration::from_secs(59));
    for _ in 0..5 {
        assert!(passes(admit(&port, subject(1), 5).await));
    }
    for _ in 0..59 {
        port.clock.advance(Duration::from_secs(1));
        assert!(!passes(admit(&port, subject(1), 5).await));
    }
    port.clock.advance(Duration::from_secs(1));
    assert!(passes(admit(&port, subject(1), 5).await));
}

async fn a_refusal_counts_for_nothing(port: Arc<Limiter>) {
    assert!(passes(admit(&port, subject(1), 1).await));
    for _ in 0..100 {
        port.clock.advance(Duration::from_millis(599));
        assert!(!passes(admit(&port, subject(1), 1).await));
    }
    port.clock.advance(Duration::from_millis(100));
    assert!(passes(admit(&port, subject(1), 1).await));
}

async fn the_same_request_fits_exactly_after_the_time_given(port: Arc<Limiter>) {
    for _ in 0..3 {
        assert!(passes(admit(&port, subject(1), 3).await));
        port.clock.advance(Duration::from_millis(7001));
    }
    for _ in 0..6 {
        let Decision::Refused { retry_after } = admit(&port, subject(1), 3).await else { panic!("the window is full") };
        port.clock.advance(retry_after.saturating_sub(Duration::from_millis(1)));
        assert!(!passes(admit(&port, subject(1), 3).await));
        port.clock.advance(Duration::from_millis(1));
        assert!(passes(admit(&port, subject(1), 3).await));
    }
}

async fn subjects_and_policies_do_not_influence_each_other(port: Arc<Limiter>) {
    for index in 0..100 {
        assert!(passes(admit(&port, subject(index), 1).await));
    }
    for policy in [Policy::Validate, Policy::Webhook, Policy::Admin, Policy::Failures] {
        assert!(passes(admit(&port, Subject { policy, ..subject(1) }, 1).await));
        assert!(!passes(admit(&port, Subject { policy, ..subject(1) }, 1).await));
    }
}

async fn of_racing_requests_exactly_the_limit_is_admitted(port: Arc<Limiter>) {
    let mut racers = JoinSet::new();
    for _ in 0..200 {
        let port = port.clone();
        racers.spawn(async move { admit(&port, subject(1), 60).await });
    }
    assert_eq!(racers.join_all().await.into_iter().filter(|decision| passes(*decision)).count(), 60);
}
