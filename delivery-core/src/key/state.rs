//! The state of a key: everything about it that can change.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::terms::UseLimit;
use crate::text::{Invalid, line};

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
    pub by: Actor,
}

/// Who changed something: `admin`, the name of an admin token, `platform:stripe`, `buyer` or `system`. 1 to 64 characters
/// without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor(Arc<str>);

/// Why something was changed, in the words of whoever changed it: 1 to 200 characters without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reason(Arc<str>);

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

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Actor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let accepted = line(text, 1, 64);
        accepted
            .then(|| Self(text.into()))
            .ok_or(Invalid::expected("must be 1 to 64 characters without control characters"))
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Reason {
    /// The words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Reason {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let accepted = line(text, 1, 200);
        accepted
            .then(|| Self(text.into()))
            .ok_or(Invalid::expected("must be 1 to 200 characters without control characters"))
    }
}

crate::text::serde_as_text!(Actor, Reason);
