//! Deleting records of uses that are older than the seller keeps them. Counts stay.

use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::{Clock, Delivery, SystemClock, explain};

/// How often to look; several servers may do so at once.
const EVERY: Duration = Duration::from_hours(24);
/// How soon to look again when the store did not answer.
const AGAIN: Duration = Duration::from_mins(10);

/// Deletes what is older than `kept`, now and each day, until it is dropped.
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
