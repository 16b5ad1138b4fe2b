//! Entries of the audit log: who did what, and when.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::key::Actor;

crate::text::names! {
    /// The action that an audit entry records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[non_exhaustive]
    pub enum Action, "must be an action of the audit log", {
        /// A key was issued by a person, or in place of another key.
        Issued = "issued",
        /// A key was revoked.
        Revoked = "revoked",
        /// A revocation was lifted.
        Restored = "restored",
        /// A key's terms were changed.
        TermsChanged = "terms_changed",
        /// The address of a key's buyer was corrected.
        EmailChanged = "email_changed",
        /// A key was revoked and replaced by another key.
        Rotated = "rotated",
        /// A part of a payment was refunded.
        PartlyRefunded = "partly_refunded",
        /// A key was sent to its buyer again.
        Resent = "resent",
        /// A failed message was queued again.
        MessageRetried = "message_retried",
        /// A product was added.
        ProductAdded = "product_added",
        /// A product was changed.
        ProductUpdated = "product_updated",
        /// A product was archived.
        ProductArchived = "product_archived",
        /// An archived product is sold again.
        ProductRestored = "product_restored",
        /// A file was added to a product.
        FileAdded = "file_added",
        /// A file of a product was replaced.
        FileReplaced = "file_replaced",
        /// A file of a product was deleted.
        FileDeleted = "file_deleted",
        /// A post was added.
        PostAdded = "post_added",
        /// A post was changed.
        PostUpdated = "post_updated",
        /// A post was deleted.
        PostDeleted = "post_deleted",
        /// A customer's personal data was erased.
        CustomerErased = "customer_erased",
        /// A person applied a platform event that was waiting, or an event that was already finished, such as a
        /// dismissed event.
        EventApplied = "event_applied",
        /// A platform event was dismissed, so it has no effect. Or a platform's name for a product was marked as not
        /// sold here. Events that are only about such products are then dismissed.
        Dismissed = "dismissed",
        /// A platform's name for a product is no longer marked as not sold here.
        DismissalLifted = "dismissal_lifted",
        /// The secret of a commerce platform was set, on the seller's web pages or through the API.
        PlatformSecretSet = "platform_secret_set",
        /// The secret of a commerce platform was removed. It had been set on the seller's web pages or through the API.
        PlatformSecretRemoved = "platform_secret_removed",
        /// Sign-ins with a wrong token were refused. There is at most one such entry a minute. Its detail contains the
        /// number of refused sign-ins.
        SignInRefused = "sign_in_refused",
    }
}

/// The text before the old address in the detail of an [`Action::EmailChanged`] entry.
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
    /// What was changed, such as the name of a file or platform. Contains no secrets and no addresses of buyers.
    pub detail: Option<String>,
}

impl Action {
    /// Returns [`Dismissed`](Self::Dismissed) if `is_dismissed` is `true`: a platform's name for a product is marked as
    /// not sold here. Returns [`DismissalLifted`](Self::DismissalLifted) otherwise: that mark is removed.
    #[must_use]
    pub fn of_dismissal(is_dismissed: bool) -> Self {
        if is_dismissed { Self::Dismissed } else { Self::DismissalLifted }
    }

    /// Returns [`PlatformSecretSet`](Self::PlatformSecretSet) if `is_set` is `true`, and
    /// [`PlatformSecretRemoved`](Self::PlatformSecretRemoved) otherwise.
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

impl Edit {
    /// Creates an edit without a detail.
    #[must_use]
    pub fn new(by: Actor, at: DateTime<Utc>) -> Self {
        Self { at, by, detail: None }
    }
}
