//! What is to be done to keys, and the outcome of a report.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Offer;
use crate::key::KeyId;
use crate::order::OrderId;

/// Something to be done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'r> {
    /// Issue the key of an offer for an order, until then if that is known. [`Deal::sold`] is told of the key that came of it.
    Issue(&'r OrderId, &'r Offer, Option<DateTime<Utc>>),
    /// Add the uses of the pieces of an offer beyond the first of them, by this number.
    Add(KeyId, &'r Offer, u64),
    /// Let it expire then.
    Until(KeyId, DateTime<Utc>),
    /// Revoke it.
    Revoke(KeyId, Why),
    /// Lift the revocation, if the platform made it for this reason.
    Lift(KeyId, Why),
    /// Take a note that a part of the money went back.
    Note(KeyId),
}

/// Why a key is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    Refunded,
    Cancelled,
    Disputed,
}

/// The outcome of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportOutcome {
    Issued,
    Renewed,
    Ended,
    /// With a reason if no key is concerned.
    Revoked(Option<&'static str>),
    Restored,
    PartlyRefunded,
    /// Nothing yet: its payment is authorised, and was not taken.
    Authorised,
    /// Nothing, and nothing will come of it, for this reason.
    Nothing(&'static str),
    /// Nothing new.
    Known,
    /// It cannot be done yet, for this reason.
    Waits(&'static str),
    /// A key is missing that could not be offered.
    Lacks,
}

impl ReportOutcome {
    /// References say nothing of what is paid, although a date may follow from them.
    pub(super) const LINKS: Self = Self::Nothing("it links references of one sale");

    /// The outcome of a report that says nothing of what is paid.
    pub(super) fn of_link(self) -> Self {
        if matches!(self, Self::Renewed | Self::Ended) { Self::LINKS } else { self }
    }
}

impl Step<'_> {
    pub(super) fn is_revocation(&self) -> bool {
        matches!(self, Self::Revoke(..))
    }

    /// Whether it sells something.
    pub(super) fn is_sale(&self) -> bool {
        matches!(self, Self::Issue(..) | Self::Add(..))
    }

    /// The key that it lets expire at another time, and that time.
    pub(super) fn date(&self) -> Option<(KeyId, DateTime<Utc>)> {
        if let Self::Until(key, until) = self { Some((*key, *until)) } else { None }
    }
}
