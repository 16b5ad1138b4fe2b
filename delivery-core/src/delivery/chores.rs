//! What a started service does now and then: it tells buyers of keys that expire, marks those that have expired, answers buyers who
//! have lost their keys, forgets requests and sessions that are old, and tells the seller of wrong sign-ins.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::watch;

use super::Delivery;
use crate::clock::{Clock, SystemClock};
use crate::key::Actor;
use crate::store::{Action, Edit, IDEMPOTENCY_WINDOW, StoreError};
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
        let Some(requests) = self.inner.ledger.office() else { return Ok(0) };
        let now = self.inner.clock.now();
        // An hour more: other servers' clocks may be behind.
        requests.prune_requests(now.checked_sub_signed(IDEMPOTENCY_WINDOW + TimeDelta::hours(1)).unwrap_or(now)).await
    }

    /// Deletes sessions of the desk that ended more than a day ago. A [started](Self::start) service does that each hour. Returns how
    /// many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    pub async fn prune_sign_ins(&self) -> Result<u64, StoreError> {
        let Some(sign_ins) = self.inner.ledger.office() else { return Ok(0) };
        let now = self.inner.clock.now();
        sign_ins.prune_sign_ins(now.checked_sub_signed(TimeDelta::days(1)).unwrap_or(now)).await
    }

    /// Tells of sign-ins as the seller with a wrong token, at the desk and at the seller's endpoints, since the last call: with one
    /// line of the log and one entry of the audit log, however many there were. A [started](Self::start) service does that each
    /// minute. Returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they are possibly not in the audit log; the next call tells of them again.
    pub async fn report_wrong_sign_ins(&self) -> Result<u64, StoreError> {
        let inner = &self.inner;
        let count = inner.wrong_sign_ins.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!(count, "somebody tries to sign in as the seller with a wrong token");
            if let Some(records) = inner.ledger.office() {
                let detail = Some(format!("attempts {count}"));
                let edit = Edit { detail, ..Edit::new(Actor::system(), inner.clock.now()) };
                if let Err(error) = records.log(Action::SignInRefused, edit).await {
                    inner.wrong_sign_ins.fetch_add(count, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(count)
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
            let (reported, told, marked) = if monotonic >= look_at {
                look_at = monotonic + POLL;
                let reported = self.report_wrong_sign_ins().await.map(drop);
                let told = self.notify_while(|| !*stop.borrow()).await;
                (reported, told, self.mark_while(|| !*stop.borrow()).await)
            } else {
                (Ok(()), Ok(0), Ok(0))
            };
            let pruned = if monotonic >= prune_at { self.prune().await } else { Ok(()) };
            if pruned.is_ok() && monotonic >= prune_at {
                prune_at = monotonic + PRUNE;
            }
            if let Err(error) = told.and(marked).map(drop).and(pruned).and(answered).and(reported)
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
        // Of the last minute. If the store fails, the log tells of them nevertheless.
        let _ = self.report_wrong_sign_ins().await;
    }
}
