//! Limits on the wire: the decision before an answer, and the headers on it.
//!
//! The headers are those of draft-ietf-httpapi-ratelimit-headers-10; `t` is the time until the oldest counted request
//! leaves the window.

use std::time::Duration;

use super::{Call, Reply, address, names};
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::limit::{Decision, Identity, Policy, Quota, Subject};

/// What to put on the answer of a request that passed.
pub(super) struct Ticket {
    policy: Policy,
    quota: Quota,
    remaining: u32,
    reset: Duration,
}

/// Who the call counts for, by its address.
pub(super) fn client(delivery: &Delivery, call: &Call) -> Identity {
    address::client(call.peer, &call.headers, &delivery.inner.trusted_proxies)
}

/// Counts a request, or has the answer that refuses it.
pub(super) async fn admit(delivery: &Delivery, policy: Policy, identity: Identity) -> Result<Ticket, Box<Reply>> {
    let quota = delivery.inner.quotas.of(policy);
    match delivery.inner.limiter.admit(&Subject { policy, identity }, quota).await {
        Ok(Decision::Admitted { remaining, reset }) => Ok(Ticket { policy, quota, remaining, reset }),
        Ok(Decision::Refused { retry_after }) => {
            let ticket = Ticket { policy, quota, remaining: 0, reset: retry_after };
            let reply = Reply::error(ErrorCode::RateLimited).retry_after(whole_seconds(retry_after));
            Err(Box::new(ticket.stamp(reply)))
        }
        Err(error) => Err(Box::new(Reply::unavailable().because(error))),
    }
}

impl Ticket {
    /// The answer with its `RateLimit` headers.
    pub(super) fn stamp(&self, reply: Reply) -> Reply {
        let name = self.policy.name();
        let (limit, window) = (self.quota.limit(), whole_seconds(self.quota.window()));
        let (left, reset) = (self.remaining, whole_seconds(self.reset));
        reply
            .text_header(&names::RATELIMIT_POLICY, format!("\"{name}\";q={limit};w={window}"))
            .text_header(&names::RATELIMIT, format!("\"{name}\";r={left};t={reset}"))
    }
}

/// Rounded up: after so many seconds it is certainly over.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
