//! The times that platforms name: until when something is paid.

use chrono::{DateTime, Days, Months, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::terms::NEVER;

/// The time that a line or a statement is about, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "platforms report nothing else")]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// The platform names no time.
    #[default]
    Unsaid,
    /// The time until this instant. The platform does not name its beginning.
    Until(DateTime<Utc>),
    /// A period with a known beginning and end.
    Period {
        /// When the period begins.
        from: DateTime<Utc>,
        /// When the period ends.
        until: DateTime<Utc>,
    },
    /// A calendar period that begins with the charge.
    Every(Recurrence),
    /// The line is charged only once, not again by its subscription. The product's own validity applies.
    Once,
}

/// The length of a calendar period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "platforms report nothing else")]
#[serde(rename_all = "snake_case")]
pub enum Recurrence {
    /// This number of days; a week is seven.
    Days(u32),
    /// This number of months; a year is twelve. The period ends on the same day of the month as it began. If the last
    /// month is too short, the period ends on the last day of that month.
    Months(u32),
}

/// The status of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "platforms report nothing else")]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The trial runs until the end of the statement's term.
    Trialing,
    /// The subscription is active.
    Active,
    /// The subscription is active until the end of the statement's term, and ends then.
    Leaving,
    /// The subscription ended at the end of the statement's term. If the term has no end, the subscription ended at the
    /// time of the statement.
    Ended,
    /// The statement names no status, or a status that has no effect.
    Unsaid,
}

/// How long a product's keys are valid if no report says until when they are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "terms allow nothing else")]
#[serde(rename_all = "snake_case")]
pub enum Own {
    /// This number of days.
    Days(u16),
    /// For ever, because no terms limit the validity. But if a subscription renews the key, the time that is paid for
    /// counts.
    Unlimited,
    /// For ever, because the product's own terms say so. This holds even if a subscription renews the key.
    Never,
}

impl Term {
    pub(super) fn is_unsaid(&self) -> bool {
        *self == Self::Unsaid
    }

    /// Returns when the term ends; `None` if it names no end.
    #[must_use]
    pub fn end(self) -> Option<DateTime<Utc>> {
        match self {
            Self::Until(until) | Self::Period { until, .. } => Some(until),
            Self::Unsaid | Self::Every(_) | Self::Once => None,
        }
    }

    /// Returns when the term begins; `None` if it names no beginning.
    pub(super) fn begin(self) -> Option<DateTime<Utc>> {
        match self {
            Self::Period { from, .. } => Some(from),
            _ => None,
        }
    }
}

impl Recurrence {
    /// Returns the time one period after `at`, at most [`NEVER`].
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
    /// Returns when a key whose validity begins at `at` expires.
    pub(super) fn after(self, at: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Days(days) => later(at, TimeDelta::days(days.into())),
            Self::Unlimited | Self::Never => NEVER,
        }
    }
}

/// Returns `at` plus `by`, at most [`NEVER`].
pub(super) fn later(at: DateTime<Utc>, by: TimeDelta) -> DateTime<Utc> {
    at.checked_add_signed(by).map_or(NEVER, |later| later.min(NEVER))
}
