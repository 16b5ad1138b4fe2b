//! Periods around the expiry of a key: how long before it buyers are notified, and how long after it keys of
//! subscriptions still work.

use std::str::FromStr;

use crate::text::Invalid;

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
