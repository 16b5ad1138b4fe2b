//! The times that platforms name: until when something is paid.

use chrono::{DateTime, Days, Months, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::terms::NEVER;

/// The time that a line or a word is about. All in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// It does not say.
    #[default]
    Unsaid,
    /// Until then.
    Until(DateTime<Utc>),
    /// A period.
    Period {
        /// When it begins.
        from: DateTime<Utc>,
        /// When it ends.
        until: DateTime<Utc>,
    },
    /// Calendar periods from the charge.
    Every(Recurrence),
    /// A line that the subscription does not charge again: it is sold for the product's own days.
    Once,
}

/// A calendar period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
#[serde(rename_all = "snake_case")]
pub enum Recurrence {
    /// This number of days; a week is seven.
    Days(u32),
    /// This number of months; a year is twelve. A month later is the same day, or the last of the month.
    Months(u32),
}

/// How a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its trial runs, until the end of the word's term.
    Trialing,
    /// It is alive.
    Active,
    /// It ends with its term, and is alive until then.
    Leaving,
    /// It has ended, at the end of the word's term.
    Ended,
    /// The word does not say.
    Unsaid,
}

/// How long a product's keys live where nothing says until when they are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what terms say")]
#[serde(rename_all = "snake_case")]
pub enum Own {
    /// This number of days.
    Days(u16),
    /// For ever, because no terms say otherwise.
    Unlimited,
    /// For ever, whatever is paid: the product's own terms say so.
    Never,
}

impl Term {
    pub(super) fn is_unsaid(&self) -> bool {
        *self == Self::Unsaid
    }

    /// When it ends, if it says so.
    #[must_use]
    pub fn end(self) -> Option<DateTime<Utc>> {
        match self {
            Self::Until(until) | Self::Period { until, .. } => Some(until),
            Self::Unsaid | Self::Every(_) | Self::Once => None,
        }
    }

    /// When it begins.
    pub(super) fn begin(self) -> Option<DateTime<Utc>> {
        match self {
            Self::Period { from, .. } => Some(from),
            _ => None,
        }
    }
}

impl Recurrence {
    /// The time one period after `at`, at most [`NEVER`].
    #[must_use]
    pub fn after(self, at: DateTime<Utc>) -> DateTime<Utc> {
        let after = match self {
            Self::Days(days) => at.checked_add_days(Days::new(days.into())),
            Self::Months(months) => at.checked_add_months(Months::new(months)),
        };
        after.map_or(NEVER, |after| after.min(NEVER))
    }
}

impl Own {
    /// The end of a key's life that begins at `at`.
    pub(super) fn after(self, at: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Days(days) => later(at, TimeDelta::days(days.into())),
            Self::Unlimited | Self::Never => NEVER,
        }
    }
}

/// `at` and some time after it, at most [`NEVER`].
pub(super) fn later(at: DateTime<Utc>, by: TimeDelta) -> DateTime<Utc> {
    at.checked_add_signed(by).map_or(NEVER, |later| later.min(NEVER))
}
