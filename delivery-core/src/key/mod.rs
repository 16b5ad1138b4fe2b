//! A key: what was granted, and what became of it.
//!
//! A [`Key`] is a value. [`Key::apply`] is the only way it changes; [`Keyring`] is the only way it becomes text.

mod keyring;
mod parts;
mod rules;

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::{Builder, Uuid};

pub use self::keyring::{Keyring, KeyringError, Verified};
pub use self::parts::{Acceptance, Fingerprint, KeyText, Prefix, RingVersion};
pub use self::rules::{Change, Refusal, Standing};
use crate::clock::{Clock, whole_seconds};
use crate::email::Email;
use crate::entropy::Entropy;
use crate::order::OrderRef;
use crate::product::ProductId;
use crate::terms::{Terms, UseLimit};

/// A key's number: a time-ordered random UUID (version 7). It is not secret; without the signing secret no key can be
/// made from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Uuid);

/// What is fixed when a key is issued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct NewKey {
    /// The key's number.
    pub id: KeyId,
    /// The ring version its text is signed under.
    pub ring: RingVersion,
    /// The product it unlocks.
    pub product: ProductId,
    /// Whom it was sent to.
    pub email: Email,
    /// The order it was bought with; `None` for a key issued by hand.
    pub order: Option<OrderRef>,
    /// When it was issued, in whole seconds.
    pub issued_at: DateTime<Utc>,
    /// From when on it is expired, in whole seconds; [`NEVER`](crate::terms::NEVER) for a key that never is.
    pub expires_at: DateTime<Utc>,
    /// How often it may be used.
    pub limit: UseLimit,
}

/// A key as it stands. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    granted: Arc<NewKey>,
    used: u64,
    revoked_at: Option<DateTime<Utc>>,
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
        (id, ring): (KeyId, RingVersion),
        product: ProductId,
        email: Email,
        terms: Terms,
        issued_at: DateTime<Utc>,
    ) -> Self {
        let (issued_at, expires_at) = (whole_seconds(issued_at), terms.validity.expiry(issued_at));
        Self { id, ring, product, email, order: None, issued_at, expires_at, limit: terms.limit }
    }

    /// The same key, bought with `order`.
    #[must_use]
    pub fn bought_with(self, order: OrderRef) -> Self {
        Self { order: Some(order), ..self }
    }
}

impl Key {
    /// A key as a store remembers it.
    #[must_use]
    pub fn restore(granted: Arc<NewKey>, used: u64, revoked_at: Option<DateTime<Utc>>) -> Self {
        Self { granted, used, revoked_at }
    }

    /// The same key with another count: for stores that keep counts apart from keys.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "for the SQL stores"))]
    pub(crate) fn with_used(&self, used: u64) -> Self {
        Self { used, ..self.clone() }
    }

    /// What was fixed at its issue.
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

    /// Whom it was sent to.
    #[must_use]
    pub fn email(&self) -> &Email {
        &self.granted.email
    }

    /// From when on it is expired.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        self.granted.expires_at
    }

    /// How often it may be used.
    #[must_use]
    pub fn limit(&self) -> UseLimit {
        self.granted.limit
    }

    /// How often it was used.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How often it can still be used; `None` without a limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.granted.limit {
            UseLimit::Uses(uses) => Some(u64::from(uses.get()).saturating_sub(self.used)),
            UseLimit::Unlimited => None,
        }
    }

    /// When it was revoked.
    #[must_use]
    pub fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.revoked_at
    }
}

impl From<NewKey> for Key {
    /// The key just issued: unused, not revoked.
    fn from(granted: NewKey) -> Self {
        Self::restore(Arc::new(granted), 0, None)
    }
}
