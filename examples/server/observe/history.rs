//! Deletes records of uses that are older than `HISTORY_DAYS`. The counts of uses stay.

use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::{Clock, Delivery, SystemClock, explain};

/// How often records are deleted. Several servers may do so at the same time.
const EVERY: Duration = Duration::from_hours(24);
/// How long to wait after a store error.
const AGAIN: Duration = Duration::from_mins(10);

/// Deletes records that are older than `kept`, now and then once a day, until the future is dropped.
pub(crate) async fn prune(delivery: Delivery, kept: TimeDelta) {
    loop {
        let now = SystemClock::default().now();
        let pause = match delivery.maintenance().prune_history(now.checked_sub_signed(kept).unwrap_or(now)).await {
            Ok(0) => EVERY,
            Ok(records) => {
                tracing::info!(records, "old records of uses were deleted");
                EVERY
            }
            Err(error) => {
                tracing::warn!("old records of uses are deleted later: {}", explain(&error));
                AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}
