//! What a started service does now and then: it tells buyers of keys that expire, marks those that have expired, answers buyers who
//! have lost their keys, and forgets requests and sessions that are old.

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

    /// Deletes sessions of the desk that ended more than a day ago. A [started](Self::start) service does that each hour. Returns how
    /// many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    pub async fn prune_sign_ins(&self) -> Result<u64, StoreError> {
        let Some(sign_ins) = self.inner.ledger.sign_ins() else { return Ok(0) };
        let now = self.inner.clock.now();
        sign_ins.prune_sign_ins(now.checked_sub_signed(TimeDelta::days(1)).unwrap_or(now)).await
    }

    async fn prune(&self) -> Result<(), StoreError> {
        self.prune_requests().await?;
        self.prune_sign_ins().await.map(drop)
    }

    /// Does what is to be done until `stop` is true.
    pub(super) async fn do_chores(self, mut stop: watch::Receiver<bool>) {
        static DELAYED: Throttle = Throttle::new();
        let (mut look_at, mut prune_at) = (Duration::ZERO, Duration::ZERO);
        while !*stop.borrow() {
            let monotonic = SystemClock.monotonic();
            let answered = self.answer_lost_while(|| !*stop.borrow()).await.map(drop);
            let (told, marked) = if monotonic >= look_at {
                look_at = monotonic + POLL;
                (self.notify_while(|| !*stop.borrow()).await, self.mark_while(|| !*stop.borrow()).await)
            } else {
                (Ok(0), Ok(0))
            };
            let pruned = if monotonic >= prune_at { self.prune().await } else { Ok(()) };
            if pruned.is_ok() && monotonic >= prune_at {
                prune_at = monotonic + PRUNE;
            }
            if let Err(error) = told.and(marked).map(drop).and(pruned).and(answered)
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
                () = self.inner.asked.notified() => {}
                // An error means that the sender was dropped without a stop signal.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
    }
}
