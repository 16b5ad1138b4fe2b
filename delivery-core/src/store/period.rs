//! Periods of time to which a list is restricted.

use std::ops::Range;

use chrono::{DateTime, Utc};

use crate::key::KeyId;
use crate::ledger::number_at;

/// A period of time. If `since` or `until` is `None`, the period is unlimited on that side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Period {
    /// The first instant of the period.
    pub since: Option<DateTime<Utc>>,
    /// The first instant after the period.
    pub until: Option<DateTime<Utc>>,
}

impl Period {
    /// Returns the range of row numbers of this period, for rows that have their time in their number, such as entries
    /// of the audit log. Fractions of a second in the ends of the period are ignored.
    #[must_use]
    pub fn numbers(&self) -> Range<i64> {
        let at = |end: DateTime<Utc>| number_at(end, 0);
        self.since.map_or(i64::MIN, at)..self.until.map_or(i64::MAX, at)
    }

    /// Returns whether a key with this id was made in the period. The id contains the time at which the key was made,
    /// to the millisecond.
    #[must_use]
    pub fn has(&self, id: KeyId) -> bool {
        self.since.is_none_or(|since| id >= KeyId::from_time(since))
            && self.until.is_none_or(|until| id < KeyId::from_time(until))
    }
}
