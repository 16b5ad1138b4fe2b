//! Rate limits over HTTP: counting a request, and the headers of its reply.
//!
//! The headers follow draft-ietf-httpapi-ratelimit-headers-10. The parameter `t` in them is the time until the oldest
//! counted request leaves the limit's window, in seconds.

use std::panic::AssertUnwindSafe;
use std::sync::Once;
use std::time::Duration;

use arrayvec::ArrayString;
use futures_util::FutureExt;

use super::error::ApiError;
use super::{Call, Reply, address, names};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::limit::{Decision, Identity, Policy, Quota, Subject};

/// The maximum length of a rate-limit header, in bytes. There must be room for a policy's name in quotes and for two
/// parameters, whose numbers have up to 10 and up to 20 digits.
const ITEM: usize = 64;

/// The state of a rate limit after a request was counted. The rate-limit headers of the reply are made from this state.
pub(super) struct Admitted {
    policy: Policy,
    quota: Quota,
    remaining: u32,
    reset: Duration,
}

/// Returns the client address under which a call is counted against rate limits. Logs a warning, once per process, if a
/// peer that is not a trusted proxy sends `X-Forwarded-For`.
pub(super) fn client(delivery: &Delivery, call: &Call) -> Identity {
    static WARNED: Once = Once::new();
    if let Some(peer) = call.peer
        && call.headers.contains_key(&names::FORWARDED_FOR)
        && !WARNED.is_completed()
        && !delivery.trusts(peer)
    {
        WARNED.call_once(|| {
            tracing::warn!(
                %peer,
                "X-Forwarded-For from a peer that is no trusted proxy is not believed: if this is your reverse proxy, \
                 all its clients share one allowance until it is named in the trusted proxies (TRUSTED_PROXIES)"
            );
        });
    }
    address::client(call.peer, &call.headers, &delivery.inner.trusted_proxies)
}

/// Counts a request against a rate limit.
///
/// # Errors
///
/// The reply to send instead: 429 if the limit is exceeded, or 503 if the limiter fails.
pub(super) async fn admit(delivery: &Delivery, policy: Policy, identity: Identity) -> Result<Admitted, ApiError> {
    let quota = delivery.inner.quotas.of(policy);
    match delivery.inner.limiter.admit(&Subject { policy, identity }, quota).await {
        Ok(Decision::Admitted { remaining, reset }) => Ok(Admitted { policy, quota, remaining, reset }),
        Ok(Decision::Refused { retry_after }) => {
            let refused = Admitted { policy, quota, remaining: 0, reset: retry_after };
            let reply = Reply::error(ErrorCode::RateLimited).retry_after(whole_seconds(retry_after));
            Err(refused.apply(reply).into())
        }
        Err(error) => Err(Reply::unavailable().because(error).into()),
    }
}

/// Records the refusal of a key that does not verify, and counts the call against the `failures` quota of the client's
/// address.
pub(super) async fn forged(delivery: &Delivery, call: &Call) -> Result<Admitted, ApiError> {
    delivery.inner.note_refusal(None, &Error::UnknownKey);
    admit(delivery, Policy::Failures, client(delivery, call)).await
}

impl Admitted {
    /// Runs the handler of the counted request, and adds the headers to its reply. A panic of the handler is caught
    /// here, so that the 500 has the headers too.
    pub(super) async fn reply_of(&self, handling: impl Future<Output = Result<Reply, ApiError>>) -> Reply {
        // `AssertUnwindSafe` is justified for the reason given in `Endpoint::serve`.
        let answered = AssertUnwindSafe(handling).catch_unwind().await;
        self.apply(answered.map_or_else(|_| Reply::panicked(), |answered| answered.unwrap_or_else(Reply::from)))
    }

    /// Adds the `RateLimit` and `RateLimit-Policy` headers to a reply.
    pub(super) fn apply(&self, reply: Reply) -> Reply {
        let (limit, window) = (self.quota.limit().get(), whole_seconds(self.quota.window()));
        let (left, reset) = (self.remaining, whole_seconds(self.reset));
        reply
            .text_header(&names::RATELIMIT_POLICY, &self.item((";q=", limit), (";w=", window)))
            .text_header(&names::RATELIMIT, &self.item((";r=", left), (";t=", reset)))
    }

    /// Formats the value of a rate-limit header, which is an item of RFC 9651: the name of the policy and two
    /// parameters. Every reply of a limited endpoint has two such headers, so this function does not use `format!`,
    /// which takes five times as long.
    fn item(&self, first: (&str, u32), second: (&str, u64)) -> ArrayString<ITEM> {
        let (mut count, mut seconds) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (count, seconds) = (count.format(first.1), seconds.format(second.1));
        let mut item = ArrayString::new();
        for part in ["\"", self.policy.name(), "\"", first.0, count, second.0, seconds] {
            item.push_str(part);
        }
        item
    }
}

/// Rounds up to whole seconds, so that a client that waits this long never retries too early.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
