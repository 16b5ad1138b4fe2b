//! A key: what was granted, and its state.
//!
//! A [`Key`] is a value: a [`NewKey`], which never changes, and a [`KeyState`]. [`Key::apply`] is the only way that the
//! state changes, and [`Keyring`] is the only way that a key becomes text.

mod keyring;
mod parts;
mod rules;
mod state;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

pub use self::keyring::{Keyring, KeyringError, Verified};
pub use self::parts::{Acceptance, Fingerprint, KeyText, Prefix, SecretVersion};
pub use self::rules::{Change, LimitChange, Refusal, Status};
pub use self::state::{Actor, KeyState, Reason, Revocation};
use crate::clock::{Clock, whole_seconds};
use crate::email::Email;
use crate::entropy::Entropy;
use crate::host_ref::HostRef;
use crate::order::OrderRef;
use crate::product::ProductId;
use crate::terms::{Terms, UseLimit};
use crate::text::Invalid;

/// A key's number: a time-ordered random UUID (version 7). It is not secret; without the signing secret no key can be
/// made from it. As text, also for serde, it is a UUID: `0197a3f0-…`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(Uuid);

/// What is fixed when a key is issued, but for the address, which can be [corrected](Change::SetEmail).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct NewKey {
    /// The key's number.
    pub id: KeyId,
    /// The version of the secret that signs its text.
    pub secret: SecretVersion,
    /// The product it unlocks.
    pub product: ProductId,
    /// Whom it is sent to.
    pub email: Email,
    /// The order it was bought with; `None` for a key issued by hand.
    pub order: Option<OrderRef>,
    /// When it was issued, in whole seconds.
    pub issued_at: DateTime<Utc>,
    /// From when on it is expired, in whole seconds; [`NEVER`](crate::terms::NEVER) for a key that never is.
    pub expires_at: DateTime<Utc>,
    /// How often it may be used.
    pub limit: UseLimit,
    /// What the host calls it.
    pub host_ref: Option<HostRef>,
}

/// A key: what was granted, and its current state. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    granted: Arc<NewKey>,
    state: KeyState,
}

impl KeyId {
    /// A new number from the time and 74 random bits (RFC 9562, 5.7).
    #[must_use]
    pub fn random(clock: &dyn Clock, entropy: &dyn Entropy) -> Self {
        let mut random = [0; 10];
        entropy.fill(&mut random);
        let milliseconds = u64::try_from(clock.now().timestamp_millis()).unwrap_or_default();
        Self(Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid())
    }

    /// The smallest number of those made at this time or later, in milliseconds since 1970.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn from_time(milliseconds: u64) -> Self {
        let mut bytes = [0; 16];
        // The first 48 bits.
        bytes.iter_mut().zip((milliseconds << 16).to_be_bytes()).for_each(|(byte, of_time)| *byte = of_time);
        Self(Uuid::from_bytes(bytes))
    }

    /// The number from its 16 bytes, as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The 16 bytes of the number.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The number as one integer.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0.as_u128()
    }
}

impl FromStr for KeyId {
    type Err = Invalid;

    /// Reads a UUID, with or without hyphens.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::try_parse(text).map(Self).map_err(|_| Invalid::expected("must be a UUID"))
    }
}

impl TryFrom<String> for KeyId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({})", self.0)
    }
}

impl NewKey {
    /// A key for `product`, sent to `email`, on `terms` that count from `issued_at`.
    #[must_use]
    pub fn on_terms(
        (id, secret): (KeyId, SecretVersion),
        product: ProductId,
        email: Email,
        terms: Terms,
        issued_at: DateTime<Utc>,
    ) -> Self {
        let (issued_at, expires_at) = (whole_seconds(issued_at), terms.validity.expiry(issued_at));
        Self { id, secret, product, email, order: None, issued_at, expires_at, limit: terms.limit, host_ref: None }
    }

    /// The same key, bought with `order`.
    #[must_use]
    pub fn bought_with(self, order: OrderRef) -> Self {
        Self { order: Some(order), ..self }
    }

    /// The same key under the host's own name for it.
    #[must_use]
    pub fn called(self, host_ref: HostRef) -> Self {
        Self { host_ref: Some(host_ref), ..self }
    }
}

impl Key {
    /// A key from what a store holds.
    #[must_use]
    pub fn new(granted: Arc<NewKey>, state: KeyState) -> Self {
        Self { granted, state }
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> &KeyState {
        &self.state
    }

    /// What was fixed at its issue, and the address.
    #[must_use]
    pub fn granted(&self) -> &Arc<NewKey> {
        &self.granted
    }

    /// The key's number.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.granted.id
    }

    /// The product it unlocks.
    #[must_use]
    pub fn product(&self) -> ProductId {
        self.granted.product
    }

    /// Whom it is sent to.
    #[must_use]
    pub fn email(&self) -> &Email {
        &self.granted.email
    }

    /// The instant from which it is expired.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        self.state.expires_at
    }

    /// How often it may be used.
    #[must_use]
    pub fn limit(&self) -> UseLimit {
        self.state.limit
    }

    /// How often it was used.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.used
    }

    /// How often it can still be used; `None` without a limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.state.limit {
            UseLimit::Uses(uses) => Some(u64::from(uses.get()).saturating_sub(self.state.used)),
            UseLimit::Unlimited => None,
        }
    }

    /// The key that took its place, if its text leaked.
    #[must_use]
    pub fn successor(&self) -> Option<KeyId> {
        self.state.revoked.as_ref()?.successor
    }

    /// When it was revoked, if it is.
    #[must_use]
    pub fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.state.revoked.as_ref().map(|revocation| revocation.at)
    }
}

impl From<NewKey> for Key {
    /// The key as it is issued: unused, not revoked, on the terms that were granted.
    fn from(granted: NewKey) -> Self {
        let state = KeyState::granted(granted.expires_at, granted.limit);
        Self { granted: Arc::new(granted), state }
    }
}
