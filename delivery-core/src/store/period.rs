//! Periods of time to which a list is restricted.

use std::ops::Range;

use chrono::{DateTime, Utc};

use crate::key::KeyId;
use crate::ledger::number_at;

/// A period of time. It has no limit where an end is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Period {
    /// The first instant of the period.
    pub since: Option<DateTime<Utc>>,
    /// The first instant after the period.
    pub until: Option<DateTime<Utc>>,
}

impl Period {
    /// Returns the numbers that rows of this period have, such as entries of the audit log. The numbers are in the order of
    /// time, to the second.
    #[must_use]
    pub fn numbers(&self) -> Range<i64> {
        let at = |end: DateTime<Utc>| number_at(end, 0);
        self.since.map_or(i64::MIN, at)..self.until.map_or(i64::MAX, at)
    }

    /// Returns whether a key with this id was made in the period. The id has the time at which the key was made.
    #[must_use]
    pub fn has(&self, id: KeyId) -> bool {
        self.since.is_none_or(|since| id >= KeyId::from_time(since))
            && self.until.is_none_or(|until| id < KeyId::from_time(until))
    }
}
