//! What the audit log says: who did what, and when.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::key::Actor;
use crate::text::Invalid;

/// What an audit entry says was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Action {
    /// A key was issued by hand, or in place of another.
    Issued,
    /// A key was revoked.
    Revoked,
    /// A revocation was lifted.
    Restored,
    /// A key's terms were changed.
    TermsChanged,
    /// The address of a key's buyer was corrected.
    EmailChanged,
    /// A key was withdrawn, and another one took its place.
    Rotated,
    /// A part of the money went back.
    PartlyRefunded,
    /// A key was sent to its buyer again.
    Resent,
    /// A message that had failed was queued again.
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
    /// A person was forgotten.
    CustomerErased,
    /// An event of a platform that waited was applied.
    EventApplied,
    /// An event of a platform, or all of a product that is not sold here, was put aside.
    Dismissed,
    /// Events of a product are no longer put aside.
    DismissalLifted,
    /// Sign-ins with a wrong token were refused, counted over a minute.
    SignInRefused,
}

/// Who changes something that is no key, and when: what the audit log says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Edit {
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    #[serde(deserialize_with = "Actor::deserialize_stored")]
    pub by: Actor,
    /// What else there is to say; no secrets, and no addresses of buyers.
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

    /// That events of a product are put aside, or no longer.
    #[must_use]
    pub fn of_dismissal(is_dismissed: bool) -> Self {
        if is_dismissed { Self::Dismissed } else { Self::DismissalLifted }
    }

    /// The name on the wire and in a store.
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
    /// A change of which there is no more to say.
    #[must_use]
    pub fn new(by: Actor, at: DateTime<Utc>) -> Self {
        Self { at, by, detail: None }
    }
}
