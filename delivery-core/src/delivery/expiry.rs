//! Keys that expire: buyers are told before, searches find them after, and those of subscriptions live a little longer than they
//! are paid for.

use std::str::FromStr;

use chrono::TimeDelta;

use super::Delivery;
use crate::store::{ExpiryScan, StoreError};
use crate::text::Invalid;

/// E-mails in one commit: a store has nothing else to do meanwhile.
const AT_ONCE: usize = 32;
/// Keys that are marked in one commit.
const MARKED_AT_ONCE: usize = 256;
const EXPECTED: Invalid = Invalid::expected("must be 0 to 365 days");
const GRACE_EXPECTED: Invalid = Invalid::expected("must be 0 to 60 days");

/// How many days before a key expires its buyer is told. A buyer of a key that is sold for fewer days is not told, and neither is
/// one whose key is renewed by a subscription.
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

/// How many days longer than it is paid for a key of a subscription lives, so that it works while the next charge is late.
///
/// `FromStr` reads 0 to 60.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionGrace(u16);

impl SubscriptionGrace {
    /// Keys of subscriptions live so many days longer.
    ///
    /// # Errors
    ///
    /// [`Invalid`] beyond 60.
    pub fn new(days: u16) -> Result<Self, Invalid> {
        if days <= 60 { Ok(Self(days)) } else { Err(GRACE_EXPECTED) }
    }

    /// The days, 0 to 60.
    #[must_use]
    pub fn days(self) -> u16 {
        self.0
    }
}

impl Default for SubscriptionGrace {
    /// 3 days.
    fn default() -> Self {
        Self(3)
    }
}

impl FromStr for SubscriptionGrace {
    type Err = Invalid;

    fn from_str(days: &str) -> Result<Self, Invalid> {
        Self::new(days.parse().map_err(|_| GRACE_EXPECTED)?)
    }
}

impl Delivery {
    pub(super) async fn notify_while(&self, goes_on: impl Fn() -> bool + Send) -> Result<usize, StoreError> {
        let inner = &self.inner;
        let (Some(records), days @ 1..) = (inner.ledger.office(), inner.expiry_notice.days()) else { return Ok(0) };
        let mut all = 0;
        while goes_on() {
            let now = inner.clock.now();
            let until = now.checked_add_signed(TimeDelta::days(days.into())).unwrap_or(now);
            let domain = inner.outbox.sender.domain().to_owned();
            let taken = records.notify_expiring(ExpiryScan { now, until, limit: AT_ONCE, domain }).await?;
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

    pub(super) async fn mark_while(&self, goes_on: impl Fn() -> bool + Send) -> Result<usize, StoreError> {
        let Some(records) = self.inner.ledger.office() else { return Ok(0) };
        let mut all = 0;
        while goes_on() {
            let marked = records.mark_expired(self.inner.clock.now(), MARKED_AT_ONCE).await?;
            all += marked;
            if marked < MARKED_AT_ONCE {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(all)
    }
}
