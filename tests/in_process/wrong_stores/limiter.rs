//! A limiter with a fault.

use std::sync::Arc;

use async_trait::async_trait;
use delivery_core::clock::Clock;
use delivery_core::limit::{Decision, Identity, LimitError, MemoryLimiter, Quota, RateLimiter, Subject};
use delivery_testing::ManualClock;

/// A limiter with a fault.
#[derive(Debug)]
pub struct WrongLimiter {
    pub inner: MemoryLimiter,
    pub clock: Arc<ManualClock>,
    pub fault: WrongLimit,
}

#[derive(Debug, Clone, Copy)]
pub enum WrongLimit {
    AdmitsOneMore,
    CountsByTheMinute,
    SharesOneCount,
    SaysTooSoon,
}

#[async_trait]
impl RateLimiter for WrongLimiter {
    async fn admit(&self, subject: &Subject, quota: Quota) -> Result<Decision, LimitError> {
        let (mut subject, mut quota) = (*subject, quota);
        match self.fault {
            WrongLimit::AdmitsOneMore => quota = Quota::per_minute(quota.limit().get() + 1).unwrap(),
            // Another subject each minute: the count begins anew.
            WrongLimit::CountsByTheMinute => {
                subject.identity = Identity::Key(u128::from(self.clock.monotonic().as_secs() / 60));
            }
            WrongLimit::SharesOneCount => subject.identity = Identity::Key(0),
            WrongLimit::SaysTooSoon => {}
        }
        let decision = self.inner.admit(&subject, quota).await?;
        Ok(match decision {
            Decision::Refused { retry_after } if matches!(self.fault, WrongLimit::SaysTooSoon) => {
                Decision::Refused { retry_after: retry_after / 2 }
            }
            decision => decision,
        })
    }
}
