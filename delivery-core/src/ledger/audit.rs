//! Entries of the audit log: who did what, and when.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::key::Actor;

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
    /// An archived product is sold again.
    ProductRestored,
    /// A file was added to a product.
    FileAdded,
    /// A file of a product was replaced.
    FileReplaced,
    /// A file of a product was deleted.
    FileDeleted,
    /// A post was added.
    PostAdded,
    /// A post was changed.
    PostUpdated,
    /// A post was deleted.
    PostDeleted,
    /// A customer's personal data was erased.
    CustomerErased,
    /// A person applied a platform event that was waiting, or a finished event that could still be applied.
    EventApplied,
    /// A platform event was dismissed, or all events of a product that is not sold here were dismissed together.
    Dismissed,
    /// Events of a product are no longer dismissed.
    DismissalLifted,
    /// The secret of a commerce platform was set at the desk.
    PlatformSecretSet,
    /// The secret of a commerce platform that was set at the desk was removed.
    PlatformSecretRemoved,
    /// Sign-ins with a wrong token were refused. There is at most one such entry a minute. Its detail contains the
    /// number of refused sign-ins.
    SignInRefused,
}

/// Precedes the old address in the detail of [`Action::EmailChanged`].
const WAS: &str = "was ";

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
    /// Returns the action for dismissing the events of a product or, if `is_dismissed` is `false`, for lifting that
    /// dismissal.
    #[must_use]
    pub fn of_dismissal(is_dismissed: bool) -> Self {
        if is_dismissed { Self::Dismissed } else { Self::DismissalLifted }
    }

    /// Returns the action for setting the secret of a platform or, if `is_set` is `false`, for removing it.
    #[must_use]
    pub fn of_secret(is_set: bool) -> Self {
        if is_set { Self::PlatformSecretSet } else { Self::PlatformSecretRemoved }
    }

    /// Returns the detail of an [`EmailChanged`](Self::EmailChanged) entry, which contains the old address.
    #[must_use]
    pub fn replacing_email(old: &Email) -> String {
        format!("{WAS}{old}")
    }

    /// Returns the old address in the detail of an [`EmailChanged`](Self::EmailChanged) entry. Returns `None` for any
    /// other action, or if `detail` is not the text that [`replacing_email`](Self::replacing_email) returns.
    pub(crate) fn old_email(self, detail: &str) -> Option<&str> {
        detail.strip_prefix(WAS).filter(|_| self == Self::EmailChanged)
    }
}

crate::text::names!(Action, "must be an action of the audit log", {
    Issued = "issued",
    Revoked = "revoked",
    Restored = "restored",
    TermsChanged = "terms_changed",
    EmailChanged = "email_changed",
    Rotated = "rotated",
    PartlyRefunded = "partly_refunded",
    Resent = "resent",
    MessageRetried = "message_retried",
    ProductAdded = "product_added",
    ProductUpdated = "product_updated",
    ProductArchived = "product_archived",
    ProductRestored = "product_restored",
    FileAdded = "file_added",
    FileReplaced = "file_replaced",
    FileDeleted = "file_deleted",
    PostAdded = "post_added",
    PostUpdated = "post_updated",
    PostDeleted = "post_deleted",
    CustomerErased = "customer_erased",
    EventApplied = "event_applied",
    Dismissed = "dismissed",
    DismissalLifted = "dismissal_lifted",
    PlatformSecretSet = "platform_secret_set",
    PlatformSecretRemoved = "platform_secret_removed",
    SignInRefused = "sign_in_refused",
});

impl Edit {
    /// Creates an edit without further detail.
    #[must_use]
    pub fn new(by: Actor, at: DateTime<Utc>) -> Self {
        Self { at, by, detail: None }
    }
}
