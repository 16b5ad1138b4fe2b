//! The state of a key: everything about the key that can change, except the buyer's address.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::KeyId;
use crate::order::Source;
use crate::terms::UseLimit;
use crate::text::Invalid;

/// The prefix of the name of every [`Actor`] that stands for a commerce platform.
const PLATFORM: &str = "platform:";
/// The maximum length of an actor's name, in characters.
const LONGEST: usize = 64;
const DISPUTED: &str = "disputed";

/// The state of a key. A store persists it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct KeyState {
    /// The instant from which the key is expired, in whole seconds; [`NEVER`](crate::terms::NEVER) for a key that never
    /// expires.
    pub expires_at: DateTime<Utc>,
    /// How often the key may be used.
    pub limit: UseLimit,
    /// How often the key was used. Never decreases.
    pub used: u64,
    /// The revocation, while the key is revoked.
    pub revoked: Option<Arc<Revocation>>,
}

/// When, why and by whom a key was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct Revocation {
    /// When the key was revoked, to the millisecond.
    pub at: DateTime<Utc>,
    /// Why the key was revoked, if a reason was given.
    pub reason: Option<Reason>,
    /// Who revoked the key.
    #[serde(deserialize_with = "Actor::deserialize_stored")]
    pub by: Actor,
    /// The key that replaced this one. If there is one, the revocation cannot be lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<KeyId>,
}

crate::text::line_type! {
    /// Who changed something, as a name of 1 to 64 characters without control characters:
    ///
    /// - a person: `admin`, the name that belongs to the person's admin token, or a name that the host application
    ///   chooses
    /// - the buyer: `buyer`
    /// - a commerce platform, such as `platform:stripe`
    /// - this software itself: `system`
    ///
    /// `FromStr` and serde accept only names of people. The other names are accepted only in stored data: in a
    /// [`Revocation`], in an [`Edit`](crate::ledger::Edit) and in the [`Writes`](crate::ledger::Writes) of a store.
    Actor, 64, but ", and not buyer, system or the name of a platform", is_reserved
}

crate::text::line_type! {
    /// Why something was changed: a text by the person who changed it, or a fixed word such as `refunded`. 1 to 200
    /// characters without control characters.
    Reason, 200
}

impl KeyState {
    /// Returns the state of a newly issued key on these terms.
    #[must_use]
    pub fn granted(expires_at: DateTime<Utc>, limit: UseLimit) -> Self {
        Self { expires_at, limit, used: 0, revoked: None }
    }
}

impl Actor {
    /// Returns the actor for the seller who uses the admin token.
    #[must_use]
    pub fn admin() -> Self {
        Self("admin".into())
    }

    /// Returns the actor for changes that this software makes by itself.
    #[must_use]
    pub fn system() -> Self {
        Self("system".into())
    }

    /// Returns the actor for a commerce platform, such as `platform:stripe`. No other actor may have that name. A
    /// longer name is cut to 64 characters.
    #[must_use]
    pub fn platform(source: &Source) -> Self {
        let name: String = format!("{PLATFORM}{source}").chars().take(LONGEST).collect();
        Self(name.into())
    }

    /// Reads a stored actor: a person, a platform, `buyer` or `system`.
    pub(crate) fn from_stored(name: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be 1 to 64 characters without control characters");
        crate::text::line(name, 1, LONGEST).then(|| Self(name.into())).ok_or(EXPECTED)
    }

    pub(crate) fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <Cow<'de, str>>::deserialize(deserializer)?;
        Self::from_stored(&name).map_err(D::Error::custom)
    }

    pub(super) fn is_platform(&self) -> bool {
        self.0.starts_with(PLATFORM)
    }
}

/// Returns whether a name is reserved for the buyer, for this software or for a platform. Case and surrounding space
/// are ignored. Otherwise, a user of a host application could choose a name such as `Platform:stripe`, which looks like
/// a platform in the audit log.
fn is_reserved(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    name == "buyer" || name == "system" || name.starts_with(PLATFORM)
}

impl Reason {
    /// Returns the reason for a revocation after a platform reported a refund.
    #[must_use]
    pub fn refunded() -> Self {
        Self("refunded".into())
    }

    /// Returns the reason for the revocation of a key that was replaced because its text leaked.
    #[must_use]
    pub fn rotated() -> Self {
        Self("rotated".into())
    }

    /// Returns the reason for a revocation after a platform reported that a paid order was cancelled.
    #[must_use]
    pub fn cancelled() -> Self {
        Self("cancelled".into())
    }

    /// Returns the reason for a revocation after a platform reported a dispute: the buyer's bank takes the payment
    /// back, or is about to.
    #[must_use]
    pub fn disputed() -> Self {
        Self(DISPUTED.into())
    }
}

impl Revocation {
    /// Returns whether a platform revoked the key because of a dispute. Such a revocation is lifted if the seller wins
    /// the dispute. If the key is revoked again for another reason, the new revocation replaces this one.
    #[must_use]
    pub fn is_disputed(&self) -> bool {
        self.by.is_platform() && self.reason.as_ref().is_some_and(|reason| reason.as_str() == DISPUTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_read_is_no_platforms_and_a_store_keeps_them_all() {
        for (name, is_read) in [
            ("alice", true),
            ("admin", true),
            ("the platform: stripe", true),
            ("system-2", true),
            ("platform:stripe", false),
            ("platform:", false),
            (" Platform:stripe", false),
            ("system", false),
            ("Buyer ", false),
        ] {
            let (by, quoted) = (Actor::from_stored(name).unwrap(), format!("{name:?}"));
            assert_eq!(name.parse::<Actor>().ok(), is_read.then(|| by.clone()), "{name:?}");
            assert_eq!(serde_json::from_str::<Actor>(&quoted).is_ok(), is_read, "{name:?}");
            let kept = Revocation { at: DateTime::UNIX_EPOCH, reason: None, by, successor: None };
            let text = serde_json::to_string(&kept).unwrap();
            assert_eq!(serde_json::from_str::<Revocation>(&text).unwrap(), kept);
        }
        for name in ["", "a\nb", &"a".repeat(65)] {
            assert!(Actor::from_stored(name).is_err() && name.parse::<Actor>().is_err(), "{name:?}");
        }
    }
}
