//! Entries of the audit log: who did what, and when.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::key::Actor;
use crate::text::Invalid;

/// The action that an audit entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Action {
    /// A key was issued by a person, or in place of another key.
    Issued,
    /// A key was revoked.
    Revoked,
    /// A revocation was lifted.
    Restored,
    /// A key's terms were changed.
    TermsChanged,
    /// The address of a key's buyer was corrected.
    EmailChanged,
    /// A key was withdrawn and replaced by another one.
    Rotated,
    /// A part of a payment was refunded.
    PartlyRefunded,
    /// A key was sent to its buyer again.
    Resent,
    /// A failed message was queued again.
    MessageRetried,
    /// A product was added.
    ProductAdded,
    /// A product was changed.
    ProductUpdated,
    /// A product was archived.
    ProductArchived,
    /// A post was added.
    PostAdded,
    /// A post was changed.
    PostUpdated,
    /// A post was deleted.
    PostDeleted,
    /// A customer's personal data was erased.
    CustomerErased,
    /// A person had a platform event applied that was waiting or dismissed.
    EventApplied,
    /// A platform event was dismissed, or all events of a product that is not sold here were.
    Dismissed,
    /// Events of a product are no longer dismissed.
    DismissalLifted,
    /// Sign-ins with a wrong token were refused. One entry a minute holds their number.
    SignInRefused,
}

/// The author, time and detail of a change to something other than a key, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Edit {
    /// When the change was made.
    pub at: DateTime<Utc>,
    /// Who made the change.
    #[serde(deserialize_with = "Actor::deserialize_stored")]
    pub by: Actor,
    /// Further detail, without secrets and without addresses of buyers.
    pub detail: Option<String>,
}

impl Action {
    const ALL: [Self; 20] = [
        Self::Issued,
        Self::Revoked,
        Self::Restored,
        Self::TermsChanged,
        Self::EmailChanged,
        Self::Rotated,
        Self::PartlyRefunded,
        Self::Resent,
        Self::MessageRetried,
        Self::ProductAdded,
        Self::ProductUpdated,
        Self::ProductArchived,
        Self::PostAdded,
        Self::PostUpdated,
        Self::PostDeleted,
        Self::CustomerErased,
        Self::EventApplied,
        Self::Dismissed,
        Self::DismissalLifted,
        Self::SignInRefused,
    ];

    /// Returns the action for dismissing the events of a product, or for lifting the dismissal.
    #[must_use]
    pub fn of_dismissal(is_dismissed: bool) -> Self {
        if is_dismissed { Self::Dismissed } else { Self::DismissalLifted }
    }

    /// Returns the name on the wire and in a store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Revoked => "revoked",
            Self::Restored => "restored",
            Self::TermsChanged => "terms_changed",
            Self::EmailChanged => "email_changed",
            Self::Rotated => "rotated",
            Self::PartlyRefunded => "partly_refunded",
            Self::Resent => "resent",
            Self::MessageRetried => "message_retried",
            Self::ProductAdded => "product_added",
            Self::ProductUpdated => "product_updated",
            Self::ProductArchived => "product_archived",
            Self::PostAdded => "post_added",
            Self::PostUpdated => "post_updated",
            Self::PostDeleted => "post_deleted",
            Self::CustomerErased => "customer_erased",
            Self::EventApplied => "event_applied",
            Self::Dismissed => "dismissed",
            Self::DismissalLifted => "dismissal_lifted",
            Self::SignInRefused => "sign_in_refused",
        }
    }
}

impl FromStr for Action {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let named = Self::ALL.into_iter().find(|action| action.as_str() == name);
        named.ok_or(Invalid::expected("must be an action of the audit log"))
    }
}

impl Edit {
    /// Creates an edit without further detail.
    #[must_use]
    pub fn new(by: Actor, at: DateTime<Utc>) -> Self {
        Self { at, by, detail: None }
    }
}
