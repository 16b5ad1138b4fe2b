//! What a started service does now and then: it tells buyers of keys that expire, marks those that have expired, and forgets
//! requests that are old.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::watch;

use super::Delivery;
use crate::clock::{Clock, SystemClock};
use crate::store::{KNOWN_FOR, StoreError};
use crate::throttle::Throttle;

/// How often there is a look at what is to be done.
const POLL: Duration = Duration::from_mins(1);
/// How often old requests are deleted.
const PRUNE: Duration = Duration::from_hours(1);

impl Delivery {
    /// Deletes requests that came with an `Idempotency-Key` more than 25 hours ago. A [started](Self::start) service does that
    /// each hour. Returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    pub async fn prune_requests(&self) -> Result<u64, StoreError> {
        let Some(requests) = self.inner.ledger.requests() else { return Ok(0) };
        let now = self.inner.clock.now();
        // An hour more: other servers' clocks may be behind.
        requests.prune_requests(now.checked_sub_signed(KNOWN_FOR + TimeDelta::hours(1)).unwrap_or(now)).await
    }

    /// Does what is to be done until `stop` is true.
    pub(super) async fn do_chores(self, mut stop: watch::Receiver<bool>) {
        static DELAYED: Throttle = Throttle::new();
        let mut prune_at = Duration::ZERO;
        while !*stop.borrow() {
            let told = self.notify_while(|| !*stop.borrow()).await;
            let marked = self.mark_while(|| !*stop.borrow()).await;
            let monotonic = SystemClock.monotonic();
            let pruned = if monotonic >= prune_at { self.prune_requests().await.map(drop) } else { Ok(()) };
            if pruned.is_ok() && monotonic >= prune_at {
                prune_at = monotonic + PRUNE;
            }
            if let Err(error) = told.and(marked).map(drop).and(pruned)
                && let Some(more) = DELAYED.admit()
            {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    more,
                    "buyers are told later that keys expire, and what is old is tidied up later: the store does not answer"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                // An error means that the sender was dropped without a stop signal.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
    }
}
