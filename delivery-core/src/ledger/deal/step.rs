//! Steps to carry out on keys, and the outcome of a report.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Offer;
use crate::key::KeyId;
use crate::order::OrderId;

/// Why a sale is ignored if its refund was reported first and may still fail. This text must not change: stored events
/// are recognised by it, and an SQL statement repeats it.
pub(crate) const REFUNDED: &str = "the money went back before: apply this event if the refund fails";
/// Why an event about a person whose data was erased is ignored. Without the erasure, it would wait, or be kept to be
/// applied later.
pub(crate) const BUYER_ERASED: &str = "the data of its buyer was erased";

/// A step to carry out on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'r> {
    /// Issue the key of an offer for an order. The key is valid until the given time. If no time is given, the expiry
    /// in the offer applies. Then pass the issued key to `Deal::sold`.
    Issue(&'r OrderId, &'r Offer, Option<DateTime<Utc>>),
    /// Add uses to a key because more pieces were bought. The offer contains the new total of pieces. The last field is
    /// the number of pieces for which the key already has uses.
    Add(KeyId, &'r Offer, u64),
    /// Let the key expire at this time.
    Until(KeyId, DateTime<Utc>),
    Revoke(KeyId, Why),
    /// Lift the key's revocation, but only if the platform revoked the key for this reason.
    Lift(KeyId, Why),
    /// Note in the audit log that a part of the money went back.
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
    /// Keys are revoked, or will not be issued. If no sale of the payment is known, the text says why the report
    /// concerns no key. If a sale is known, this is `None`.
    Revoked(Option<&'static str>),
    Restored,
    PartlyRefunded,
    /// Nothing happens yet, because the payment is authorised but not captured.
    Authorised,
    /// The report has no effect, now or later, for this reason.
    Nothing(&'static str),
    /// The report changes nothing, because an earlier report had the same effect.
    Known,
    /// The report cannot be applied yet, for this reason.
    Waits(&'static str),
    /// A product has no key, and the report does not offer a key for it.
    Lacks,
}

impl ReportOutcome {
    /// The outcome of a report that only links references. Such a report says nothing about what is paid, although it
    /// may change when a key expires.
    pub(super) const LINKS: Self = Self::Nothing("it links references of one sale");

    /// Returns the outcome for a report that says nothing about what is paid. For such a report, a changed expiry
    /// counts neither as a renewal nor as an end of the subscription.
    pub(super) fn of_link(self) -> Self {
        if matches!(self, Self::Renewed | Self::Ended) { Self::LINKS } else { self }
    }

    /// Returns the outcome for a report about a person whose data was erased. Such a report never waits, and its event
    /// is never kept to be applied later.
    pub(crate) fn of_erased(self) -> Self {
        let is_kept = matches!(self, Self::Waits(_) | Self::Lacks | Self::Nothing(REFUNDED));
        if is_kept { Self::Nothing(BUYER_ERASED) } else { self }
    }
}

impl Step<'_> {
    pub(super) fn is_revocation(&self) -> bool {
        matches!(self, Self::Revoke(..))
    }

    /// Returns whether the step issues a key or adds uses to a key.
    pub(super) fn is_sale(&self) -> bool {
        matches!(self, Self::Issue(..) | Self::Add(..))
    }

    /// Returns the key whose expiry the step changes, and the new expiry; `None` for any other step.
    pub(super) fn date(&self) -> Option<(KeyId, DateTime<Utc>)> {
        if let Self::Until(key, until) = self { Some((*key, *until)) } else { None }
    }
}
