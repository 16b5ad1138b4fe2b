//! Keys that expire: buyers are notified in advance, expired keys are marked so that searches stay fast, and keys
//! of subscriptions get days of grace.

use std::str::FromStr;

use chrono::TimeDelta;

use super::Delivery;
use crate::store::{ExpiryScan, StoreError};
use crate::text::Invalid;

/// The maximum number of keys whose e-mails are queued in one commit. A larger commit would delay other operations of
/// the store.
const AT_ONCE: usize = 32;
/// The maximum number of keys that are marked as expired in one commit.
const MARKED_AT_ONCE: usize = 256;

/// The notice period: how many days in advance buyers are notified that their key expires. There is no notice if
///
/// - the key is revoked or used up,
/// - a subscription renews the key,
/// - the buyer's address was erased, or
/// - the key is valid for a shorter time than the notice period, both as it was issued and at present.
///
/// `FromStr` reads 0 to 365. With 0 nobody is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExpiryNotice(u16);

/// The grace period: how many days a subscription's key is valid beyond the time that is paid for. The key therefore
/// still works if the next charge is late.
///
/// `FromStr` reads 0 to 60.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionGrace(u16);

/// Implements a type that holds a number of days, from 0 to `$most`. Its default is `$default` days.
macro_rules! days {
    ($type:ident, $most:literal, $default:literal, $expected:literal) => {
        impl $type {
            #[doc = concat!("Makes the period of this many days, 0 to ", $most, ".")]
            ///
            /// # Errors
            ///
            #[doc = concat!("[`Invalid`] if `days` is more than ", $most, ".")]
            pub fn new(days: u16) -> Result<Self, Invalid> {
                if days <= $most { Ok(Self(days)) } else { Err(Invalid::expected($expected)) }
            }

            #[doc = concat!("Returns the number of days, 0 to ", $most, ".")]
            #[must_use]
            pub fn days(self) -> u16 {
                self.0
            }
        }

        impl Default for $type {
            #[doc = concat!($default, " days.")]
            fn default() -> Self {
                Self($default)
            }
        }

        impl FromStr for $type {
            type Err = Invalid;

            fn from_str(days: &str) -> Result<Self, Invalid> {
                Self::new(days.parse().map_err(|_| Invalid::expected($expected))?)
            }
        }
    };
}

days!(ExpiryNotice, 365, 14, "must be 0 to 365 days");
days!(SubscriptionGrace, 60, 3, "must be 0 to 60 days");

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
            // Let other operations that wait for the store go first.
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
