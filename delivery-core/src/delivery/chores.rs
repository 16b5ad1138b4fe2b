//! The periodic work of a started service: notifies buyers of keys that expire soon, marks expired keys, answers
//! requests for lost keys, deletes old requests and sessions, and reports wrong sign-ins to the seller.

use std::time::Duration;

use tokio::sync::watch;

use super::Delivery;
use crate::clock::{Clock, SystemClock};
use crate::store::StoreError;
use crate::throttle::Throttle;

/// How often the worker looks for work.
const POLL: Duration = Duration::from_mins(1);
/// How often old requests and sessions are deleted.
const PRUNE: Duration = Duration::from_hours(1);
/// How often the objects of deleted files are deleted. This lists all objects.
const PRUNE_FILES: Duration = Duration::from_hours(24);

impl Delivery {
    async fn prune(&self) -> Result<(), StoreError> {
        self.maintenance().prune_requests().await?;
        self.maintenance().prune_sign_ins().await.map(drop)
    }

    /// Deletes the objects of deleted files. Gives up when `stop` is true: the next pass deletes what is left.
    #[cfg(feature = "files")]
    async fn prune_files(&self, stop: &mut watch::Receiver<bool>) -> Result<(), StoreError> {
        let maintenance = self.maintenance();
        let pruned = tokio::select! {
            pruned = maintenance.prune_files() => pruned.map(drop),
            _ = stop.wait_for(|stop| *stop) => Ok(()),
        };
        pruned.inspect_err(|error| {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "files that were deleted stay in the object store until the next pass");
        })
    }

    #[cfg(not(feature = "files"))]
    #[expect(clippy::unused_async, reason = "it is async with the feature files")]
    async fn prune_files(&self, _: &mut watch::Receiver<bool>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Does the periodic work until `stop` is true.
    pub(super) async fn do_chores(self, mut stop: watch::Receiver<bool>) {
        static DELAYED: Throttle = Throttle::new();
        let (mut look_at, mut prune_at, mut prune_files_at) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
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
            if monotonic >= prune_files_at {
                let pruned = self.prune_files(&mut stop).await;
                prune_files_at = monotonic + if pruned.is_ok() { PRUNE_FILES } else { PRUNE };
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
                // `Err` means that the sending half of the `stop` channel was dropped without a stop signal.
                stopped = stop.wait_for(|stop| *stop) => if stopped.is_err() { break },
            }
        }
        // Report the wrong sign-ins of the last minute. If the store fails, they are at least in the log.
        let _ = self.maintenance().report_wrong_sign_ins().await;
    }
}
