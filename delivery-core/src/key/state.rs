//! The state of a key: everything about it that can change.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::KeyId;
use crate::order::Source;
use crate::terms::UseLimit;
use crate::text::Invalid;

/// What the names of commerce platforms begin with, as actors.
const PLATFORM: &str = "platform:";
/// The longest name of an actor, in characters.
const LONGEST: usize = 64;
const DISPUTED: &str = "disputed";

/// What can change about a key. A store persists it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct KeyState {
    /// The instant from which it is expired, in whole seconds; [`NEVER`](crate::terms::NEVER) for a key that never is.
    pub expires_at: DateTime<Utc>,
    /// How often it may be used.
    pub limit: UseLimit,
    /// How often it was used. Never decreases.
    pub used: u64,
    /// The revocation, while it is revoked.
    pub revoked: Option<Arc<Revocation>>,
}

/// Why a key is revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct Revocation {
    /// When, to the millisecond.
    pub at: DateTime<Utc>,
    /// Why, as far as it was said.
    pub reason: Option<Reason>,
    /// Who did it.
    #[serde(deserialize_with = "Actor::deserialize_stored")]
    pub by: Actor,
    /// The key that took its place; the revocation cannot be lifted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<KeyId>,
}

crate::text::line_type! {
    /// Who changed something: `admin`, the name of an admin token, `platform:stripe`, `buyer` or `system`. 1 to 64
    /// characters without control characters.
    ///
    /// A name that is read, by `FromStr` or serde, is that of a person: `buyer`, `system` and the names of platforms are refused.
    /// Serde reads these too as a part of a [`Revocation`], of an [`Edit`](crate::store::Edit) and of what a store
    /// [writes](crate::store::Writes).
    Actor, 64, but ", and not buyer, system or the name of a platform", is_reserved
}

crate::text::line_type! {
    /// Why something was changed, in the words of whoever changed it: 1 to 200 characters without control characters.
    Reason, 200
}

impl KeyState {
    /// The state of a key that is just issued on these terms.
    #[must_use]
    pub fn granted(expires_at: DateTime<Utc>, limit: UseLimit) -> Self {
        Self { expires_at, limit, used: 0, revoked: None }
    }
}

impl Actor {
    /// The seller, with the admin token.
    #[must_use]
    pub fn admin() -> Self {
        Self("admin".into())
    }

    /// This software by itself.
    #[must_use]
    pub fn system() -> Self {
        Self("system".into())
    }

    /// A commerce platform: `platform:stripe`. No other actor may be called so.
    #[must_use]
    pub fn platform(source: &Source) -> Self {
        let name: String = format!("{PLATFORM}{source}").chars().take(LONGEST).collect();
        Self(name.into())
    }

    /// Anybody whom a store has kept.
    pub(crate) fn from_stored(name: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be 1 to 64 characters without control characters");
        crate::text::line(name, 1, LONGEST).then(|| Self(name.into())).ok_or(EXPECTED)
    }

    pub(crate) fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <Cow<'de, str>>::deserialize(deserializer)?;
        Self::from_stored(&name).map_err(D::Error::custom)
    }

    fn is_platform(&self) -> bool {
        self.0.starts_with(PLATFORM)
    }
}

/// Whether a name is that of an actor who is no person, in any case and with any space around it: a host may read whatever its
/// users call themselves.
fn is_reserved(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    name == "buyer" || name == "system" || name.starts_with(PLATFORM)
}

impl Reason {
    /// A platform reports that the money went back.
    #[must_use]
    pub fn refunded() -> Self {
        Self("refunded".into())
    }

    /// The text of the key leaked, and another key took its place.
    #[must_use]
    pub fn rotated() -> Self {
        Self("rotated".into())
    }

    /// A platform reports that the order was cancelled after it was paid.
    #[must_use]
    pub fn cancelled() -> Self {
        Self("cancelled".into())
    }

    /// A platform reports that the buyer's bank takes the payment back, or is about to.
    #[must_use]
    pub fn disputed() -> Self {
        Self(DISPUTED.into())
    }
}

impl Revocation {
    /// Whether a platform revoked the key because of a dispute. The platform lifts it if the dispute is won; another revocation
    /// takes its place.
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
