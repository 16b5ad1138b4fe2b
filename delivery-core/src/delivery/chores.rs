//! What a started service does now and then: it tells buyers of keys that expire, marks those that have expired, answers buyers who
//! have lost their keys, forgets requests and sessions that are old, and tells the seller of wrong sign-ins.

use std::time::Duration;

use tokio::sync::watch;

use super::Delivery;
use crate::clock::{Clock, SystemClock};
use crate::store::StoreError;
use crate::throttle::Throttle;

/// How often there is a look at what is to be done.
const POLL: Duration = Duration::from_mins(1);
/// How often old requests are deleted.
const PRUNE: Duration = Duration::from_hours(1);

impl Delivery {
    async fn prune(&self) -> Result<(), StoreError> {
        self.maintenance().prune_requests().await?;
        self.maintenance().prune_sign_ins().await.map(drop)
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
                let reported = self.maintenance().report_wrong_sign_ins().await.map(drop);
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
        let _ = self.maintenance().report_wrong_sign_ins().await;
    }
}
