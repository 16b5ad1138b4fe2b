//! The rate at which e-mails are given to the mail server.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Spaces e-mails evenly. Callers are served in the order in which they called.
pub(super) struct Pace {
    between: Duration,
    /// Ticks when the next e-mail may be sent; `None` until the first e-mail.
    ticks: Mutex<Option<Interval>>,
}

impl Pace {
    pub(super) fn of(per_second: NonZeroU32) -> Self {
        let between = (Duration::from_secs(1) / per_second.get()).max(Duration::from_nanos(1));
        Self { between, ticks: Mutex::new(None) }
    }

    /// Waits until the next e-mail may be sent.
    pub(super) async fn wait(&self) {
        let mut ticks = self.ticks.lock().await;
        let new = || {
            let mut ticks = interval(self.between);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        ticks.get_or_insert_with(new).tick().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn e_mails_are_spaced_evenly_also_after_a_pause() {
        let pace = Arc::new(Pace::of(NonZeroU32::new(4).unwrap()));
        #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
        let began = Instant::now();
        let sent = async |pace: Arc<Pace>| {
            pace.wait().await;
            began.elapsed().as_millis()
        };
        assert_eq!(join_all((0..5).map(|_| sent(pace.clone()))).await, [0, 250, 500, 750, 1000]);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(join_all((0..3).map(|_| sent(pace.clone()))).await, [61_000, 61_250, 61_500]);
    }
}
