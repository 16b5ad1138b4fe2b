//! Buyers are told before their keys expire.

use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::watch;

use super::Delivery;
use crate::store::{ExpiryScan, StoreError};
use crate::text::Invalid;
use crate::throttle::Throttle;

/// How often keys are looked for.
const POLL: Duration = Duration::from_mins(1);
/// Keys in one commit: a store has nothing else to do meanwhile.
const AT_ONCE: usize = 32;
const EXPECTED: Invalid = Invalid::expected("must be 0 to 365 days");

/// How many days before a key expires its buyer is told. A buyer of a key that is sold for fewer days is told at once.
///
/// `FromStr` reads 0 to 365; 0 tells nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExpiryNotice(u16);

impl ExpiryNotice {
    /// Buyers are told so many days before.
    ///
    /// # Errors
    ///
    /// [`Invalid`] beyond 365.
    pub fn new(days: u16) -> Result<Self, Invalid> {
        if days <= 365 { Ok(Self(days)) } else { Err(EXPECTED) }
    }

    /// The days, 0 to 365.
    #[must_use]
    pub fn days(self) -> u16 {
        self.0
    }
}

impl Default for ExpiryNotice {
    /// 14 days.
    fn default() -> Self {
        Self(14)
    }
}

impl FromStr for ExpiryNotice {
    type Err = Invalid;

    fn from_str(days: &str) -> Result<Self, Invalid> {
        Self::new(days.parse().map_err(|_| EXPECTED)?)
    }
}

impl Delivery {
    /// Queues an e-mail about each key that expires within the [days](super::Builder::expiry_notice) before that, once for each
    /// time that a key is to expire. A [started](Self::start) service does that each minute. Returns how many keys were looked at.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not answer; what was queued by then stays queued.
    pub async fn notify_expiring(&self) -> Result<usize, StoreError> {
        self.notify_while(|| true).await
    }

    async fn notify_while(&self, goes_on: impl Fn() -> bool + Send) -> Result<usize, StoreError> {
        let inner = &self.inner;
        let (Some(records), days @ 1..) = (inner.ledger.records(), inner.expiry_notice.days()) else { return Ok(0) };
        let mut all = 0;
        while goes_on() {
            let now = inner.clock.now();
            let until = now.checked_add_signed(TimeDelta::days(days.into())).unwrap_or(now);
            let names = (0..AT_ONCE).map(|_| self.new_message_id()).collect::<Result<_, _>>()?;
            let taken = records.notify_expiring(ExpiryScan { now, until, names }).await?;
            all += taken;
            if taken > 0 {
                inner.wake.notify_one();
            }
            if taken < AT_ONCE {
                break;
            }
            // Whoever waits for the store meanwhile comes first.
            tokio::task::yield_now().await;
        }
        Ok(all)
    }

    /// Tells buyers until `stop` is true.
    pub(super) async fn notify_all(self, mut stop: watch::Receiver<bool>) {
        static DELAYED: Throttle = Throttle::new();
        while !*stop.borrow() {
            if let Err(error) = self.notify_while(|| !*stop.borrow()).await
                && let Some(more) = DELAYED.admit()
            {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, more, "buyers are told later that keys expire: the store does not answer");
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                // An error means that the sender was dropped without a stop signal.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
    }
}
