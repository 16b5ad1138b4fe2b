//! The terms of a key: how long it is valid, and how often it may be used.

use std::num::{NonZeroU16, NonZeroU32};

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::whole_seconds;
use crate::text::Invalid;

/// The maximum validity of a key, in days: a century.
pub const MAX_DAYS: u16 = 36_500;
/// The maximum number of uses in a use limit. A signed 32-bit column of a database cannot hold more.
pub const MAX_USES: u32 = i32::MAX as u32;

/// The expiry shown for a key that never expires, `9999-12-31T23:59:59Z`: the last second that RFC 3339 can express.
pub const NEVER: DateTime<Utc> = match DateTime::from_timestamp(253_402_300_799, 0) {
    Some(never) => never,
    None => DateTime::<Utc>::MAX_UTC,
};

/// How long a key is valid after it was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Validity {
    /// For this number of 24-hour days, 1 to [`MAX_DAYS`].
    Days(Days),
    /// For ever. The expiry is shown as [`NEVER`].
    Never,
}

/// A number of days, 1 to [`MAX_DAYS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Days(NonZeroU16);

/// How often a key may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UseLimit {
    /// Up to this many times, 1 to [`MAX_USES`].
    Uses(Uses),
    /// Without a limit.
    Unlimited,
}

/// A number of uses, 1 to [`MAX_USES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uses(NonZeroU32);

/// The terms under which a key is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a key has exactly these two terms; a host writes them as a literal")]
pub struct Terms {
    /// How long the key is valid.
    pub validity: Validity,
    /// How often the key may be used.
    pub limit: UseLimit,
}

/// Terms that may be unset. If a request leaves a term unset, the term of the product applies. If the product leaves it
/// unset too, the default term applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "mirrors `Terms`")]
pub struct OwnTerms {
    /// How long a key is valid, if set.
    pub validity: Option<Validity>,
    /// How often a key may be used, if set.
    pub limit: Option<UseLimit>,
}

impl Validity {
    /// Converts the number that the API uses: 1 to [`MAX_DAYS`] days, or -1 for never.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other number.
    pub fn from_days(days: i64) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be 1 to 36500 days, or -1 for a key that never expires");
        if days == -1 {
            return Ok(Self::Never);
        }
        let days = u16::try_from(days).ok().filter(|days| *days <= MAX_DAYS).and_then(NonZeroU16::new);
        days.map(|days| Self::Days(Days(days))).ok_or(EXPECTED)
    }

    /// Returns the number that the API shows: days, or -1 for never.
    #[must_use]
    pub fn as_days(self) -> i64 {
        match self {
            Self::Days(days) => i64::from(days.get()),
            Self::Never => -1,
        }
    }

    /// Returns the instant at which a key issued at `issued_at` expires, in whole seconds and at most [`NEVER`].
    #[must_use]
    pub fn expiry(self, issued_at: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Never => NEVER,
            Self::Days(days) => whole_seconds(issued_at)
                .checked_add_signed(TimeDelta::days(i64::from(days.get())))
                .map_or(NEVER, |expiry| expiry.min(NEVER)),
        }
    }
}

impl Days {
    /// Returns the number of days, 1 to [`MAX_DAYS`].
    #[must_use]
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl UseLimit {
    /// Converts the number that the API uses: 1 to [`MAX_USES`] uses, or -1 for unlimited.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other number.
    pub fn from_count(count: i64) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be 1 to 2147483647 uses, or -1 for no limit");
        if count == -1 {
            return Ok(Self::Unlimited);
        }
        let count = u32::try_from(count).ok().filter(|count| *count <= MAX_USES).and_then(NonZeroU32::new);
        count.map(|count| Self::Uses(Uses(count))).ok_or(EXPECTED)
    }

    /// Returns the number that the API shows: uses, or -1 for unlimited.
    #[must_use]
    pub fn as_count(self) -> i64 {
        match self {
            Self::Uses(uses) => i64::from(uses.get()),
            Self::Unlimited => -1,
        }
    }

    /// Returns the use limit for this number of pieces: the limit of one piece times `pieces`, at most [`MAX_USES`].
    pub(crate) fn times(self, pieces: u64) -> Self {
        let Self::Uses(uses) = self else { return self };
        let all = u64::from(uses.get()).saturating_mul(pieces.max(1)).min(MAX_USES.into());
        i64::try_from(all).ok().and_then(|all| Self::from_count(all).ok()).unwrap_or(self)
    }

    /// Returns whether a key that was used `used` times may be used once more.
    #[must_use]
    pub fn allows(self, used: u64) -> bool {
        match self {
            Self::Uses(most) => used < u64::from(most.get()),
            Self::Unlimited => true,
        }
    }
}

impl Uses {
    /// Returns the number of uses, 1 to [`MAX_USES`].
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the sum of two numbers of uses, but at most [`MAX_USES`].
    #[must_use]
    pub fn saturating_add(self, more: Self) -> Self {
        let sum = self.0.saturating_add(more.get());
        Self(sum.min(NonZeroU32::MIN.saturating_add(MAX_USES - 1)))
    }
}

impl Default for Terms {
    /// Returns 365 days and unlimited uses.
    fn default() -> Self {
        let year = NonZeroU16::new(365).unwrap_or(NonZeroU16::MIN);
        Self { validity: Validity::Days(Days(year)), limit: UseLimit::Unlimited }
    }
}

impl OwnTerms {
    /// Returns these terms; each unset term is taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { validity: self.validity.or(other.validity), limit: self.limit.or(other.limit) }
    }

    /// Returns these terms; each unset term is taken from `default`.
    #[must_use]
    pub fn unwrap_or(self, default: Terms) -> Terms {
        Terms { validity: self.validity.unwrap_or(default.validity), limit: self.limit.unwrap_or(default.limit) }
    }
}

crate::text::serde_as_number!(UseLimit, i64, UseLimit::from_count, UseLimit::as_count);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::timestamp;

    #[test]
    fn the_published_terms_are_the_default() {
        let Terms { validity, limit } = Terms::default();
        assert_eq!((validity.as_days(), limit.as_count()), (365, -1));
    }

    #[test]
    fn expiry_is_whole_days_from_the_second_of_issue_and_never_beyond_the_calendar() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        for (days, issued, expiry) in [
            (1, "2026-11-21T10:00:00.999Z", "2026-11-22T10:00:00Z"),
            (365, "2027-11-21T10:00:00Z", "2028-11-20T10:00:00Z"),
            (-1, "2026-11-21T10:00:00Z", "9999-12-31T23:59:59Z"),
            (36_500, "9999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(timestamp(Validity::from_days(days).unwrap().expiry(at(issued))), expiry);
        }
        assert_eq!(Validity::from_days(36_500).unwrap().expiry(DateTime::<Utc>::MAX_UTC), NEVER);
    }
}
