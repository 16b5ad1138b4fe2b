//! The periodic work of a started service:
//!
//! - notifies buyers of keys that expire soon
//! - marks expired keys
//! - answers requests for lost keys
//! - deletes old `Idempotency-Key` records, old sessions, old platform events and the objects of deleted files
//! - reports failed sign-ins to the seller

use std::time::Duration;

use tokio::sync::watch;

use super::Delivery;
use super::running::until_stopped;
use crate::clock::{Clock, SystemClock};
use crate::store::StoreError;
use crate::throttle::log_seldom;

/// How often the worker looks for work.
const POLL: Duration = Duration::from_mins(1);
/// How often old `Idempotency-Key` records, old sessions and old platform events are deleted.
const PRUNE: Duration = Duration::from_hours(1);
/// How often the objects of deleted files are deleted. This is done rarely, because it lists all objects.
#[cfg(feature = "files")]
const PRUNE_FILES: Duration = Duration::from_hours(24);

impl Delivery {
    /// Does the periodic work until `stop` is true. Objects are deleted concurrently with the other work, because an
    /// object store may be slow.
    pub(super) async fn do_chores(self, stop: watch::Receiver<bool>) {
        #[cfg(feature = "files")]
        let chores = async {
            tokio::join!(self.prune_files(), self.tidy());
        };
        #[cfg(not(feature = "files"))]
        let chores = self.tidy();
        until_stopped(stop, chores).await;
        // Report the failed sign-ins of the last minute. If the store fails, they are at least in the log.
        let _ = self.maintenance().report_wrong_sign_ins().await;
    }

    async fn tidy(&self) {
        let maintenance = self.maintenance();
        let (mut look_at, mut prune_at) = (Duration::ZERO, Duration::ZERO);
        loop {
            let monotonic = SystemClock.monotonic();
            let answered = maintenance.answer_lost().await.map(drop);
            let (reported, notified, marked) = if monotonic >= look_at {
                look_at = monotonic + POLL;
                let reported = maintenance.report_wrong_sign_ins().await.map(drop);
                let notified = maintenance.notify_expiring().await;
                (reported, notified, maintenance.mark_expired().await)
            } else {
                (Ok(()), Ok(0), Ok(0))
            };
            let pruned = if monotonic >= prune_at { self.prune().await } else { Ok(()) };
            if pruned.is_ok() && monotonic >= prune_at {
                prune_at = monotonic + PRUNE;
            }
            if let Err(error) = notified.and(marked).map(drop).and(pruned).and(answered).and(reported) {
                log_seldom!(
                    warn,
                    error = &error,
                    "e-mails about expiring keys and the deletion of old data are delayed: the store does not answer"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = self.inner.asked.notified() => {}
            }
        }
    }

    async fn prune(&self) -> Result<(), StoreError> {
        let maintenance = self.maintenance();
        let (requests, sign_ins) = (maintenance.prune_requests().await, maintenance.prune_sign_ins().await);
        requests.and(sign_ins).and(maintenance.prune_events().await).map(drop)
    }

    /// Deletes the objects of deleted files once a day. After an error, tries again an hour later. Objects that are
    /// left at a stop are deleted an hour after the next start.
    #[cfg(feature = "files")]
    async fn prune_files(&self) {
        // Wait an hour first: a server that was started with a wrong database could delete objects that are needed. The
        // operator probably notices the mistake within this hour.
        tokio::time::sleep(PRUNE).await;
        loop {
            let pruned = self.maintenance().prune_files().await.inspect_err(|error| {
                let error = error as &dyn std::error::Error;
                tracing::warn!(error, "files that were deleted stay in the object store until the next pass");
            });
            tokio::time::sleep(if pruned.is_ok() { PRUNE_FILES } else { PRUNE }).await;
        }
    }
}
