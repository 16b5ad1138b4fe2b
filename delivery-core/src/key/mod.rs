//! A key: what was granted, and its state.
//!
//! A [`Key`] is a value with two parts. Its [`NewKey`] is fixed when the key is issued, except for the address. Its
//! [`KeyState`] changes when the key is used, revoked or extended. [`Key::apply`] makes these changes, and
//! [`Key::rotate`] replaces a key. [`Keyring`] is the only way to turn a key into text.

mod alias;
mod keyring;
mod parts;
mod rule;
mod rules;
mod state;
mod ticket;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

pub use self::alias::Alias;
pub use self::keyring::{Keyring, KeyringError};
pub use self::parts::{Acceptance, Fingerprint, KeyText, Prefix, SecretVersion};
pub use self::rule::{Denied, Rule, Rules};
pub use self::rules::{Change, LimitChange, Refusal, Status};
pub use self::state::{Actor, KeyState, Reason, Revocation};
pub(crate) use self::ticket::{Ticket, TicketFor};
use crate::clock::{Clock, whole_seconds};
use crate::email::Email;
use crate::entropy::Entropy;
use crate::host_ref::HostRef;
use crate::order::OrderRef;
use crate::product::ProductId;
use crate::terms::{Terms, UseLimit};
use crate::text::Invalid;

/// A key's id: a time-ordered random UUID (version 7). It is not secret: without the signing secret, the key's text
/// cannot be computed from it. Its text form, also for serde, is a UUID: `0197a3f0-…`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(Uuid);

/// The facts that are fixed when a key is issued. Only the address can be [corrected](Change::SetEmail) later. The
/// current expiry and limit of the key are in its [`KeyState`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it from a row, field by field, and must not miss one")]
pub struct NewKey {
    /// The key's id.
    pub id: KeyId,
    /// The version of the secret that signs the key's text.
    pub secret: SecretVersion,
    /// The product that the key unlocks.
    pub product: ProductId,
    /// The buyer's address, to which the key is sent.
    pub email: Email,
    /// The order with which the key was bought; `None` for a key issued by hand.
    pub order: Option<OrderRef>,
    /// When the key was issued, in whole seconds.
    pub issued_at: DateTime<Utc>,
    /// The expiry that was granted: the instant from which the key is expired, in whole seconds, or
    /// [`NEVER`](crate::terms::NEVER).
    pub expires_at: DateTime<Utc>,
    /// The use limit that was granted: how often the key may be used.
    pub limit: UseLimit,
    /// The host application's own name for the key.
    pub host_ref: Option<HostRef>,
}

/// A key: what was granted, and its current state. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    granted: Arc<NewKey>,
    state: KeyState,
}

impl KeyId {
    /// Returns a new id from the time and 74 random bits (RFC 9562, 5.7).
    #[must_use]
    pub fn random(clock: &dyn Clock, entropy: &dyn Entropy) -> Self {
        let mut random = [0; 10];
        entropy.fill(&mut random);
        let milliseconds = u64::try_from(clock.now().timestamp_millis()).unwrap_or_default();
        Self(Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid())
    }

    /// Returns a lower bound for the ids that are made in the millisecond of `at` or later. All ids that were made
    /// earlier are less than the bound.
    pub(crate) fn from_time(at: DateTime<Utc>) -> Self {
        let milliseconds = u64::try_from(at.timestamp_millis()).unwrap_or_default().min((1 << 48) - 1);
        let mut bytes = [0; 16];
        // The time fills the first 48 bits.
        bytes.iter_mut().zip((milliseconds << 16).to_be_bytes()).for_each(|(byte, of_time)| *byte = of_time);
        Self(Uuid::from_bytes(bytes))
    }

    /// Restores an id from its 16 stored bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the 16 bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Returns when the id was made, in whole seconds.
    pub(crate) fn made_at(self) -> DateTime<Utc> {
        // The time fills the first 48 bits.
        let milliseconds = i64::try_from(self.as_u128() >> 80).unwrap_or_default();
        whole_seconds(DateTime::from_timestamp_millis(milliseconds).unwrap_or_default())
    }

    /// Returns the id as one integer.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0.as_u128()
    }
}

impl From<Uuid> for KeyId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
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
    /// Creates a key for `product`, without an order, to be sent to `email`. The validity in `terms` begins at
    /// `issued_at`.
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

    /// Sets the order with which the key was bought.
    #[must_use]
    pub fn bought_with(self, order: OrderRef) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Sets the host application's own name for the key.
    #[must_use]
    pub fn called(self, host_ref: HostRef) -> Self {
        Self { host_ref: Some(host_ref), ..self }
    }
}

impl Key {
    /// Restores a key from its stored parts.
    #[must_use]
    pub fn new(granted: Arc<NewKey>, state: KeyState) -> Self {
        Self { granted, state }
    }

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> &KeyState {
        &self.state
    }

    /// Returns the facts that were fixed when the key was issued, and the address.
    #[must_use]
    pub fn granted(&self) -> &Arc<NewKey> {
        &self.granted
    }

    /// Returns the key's id.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.granted.id
    }

    /// Returns the product that the key unlocks.
    #[must_use]
    pub fn product(&self) -> ProductId {
        self.granted.product
    }

    /// Returns the buyer's address, to which the key is sent.
    #[must_use]
    pub fn email(&self) -> &Email {
        &self.granted.email
    }

    /// Returns the instant from which the key is expired; [`NEVER`](crate::terms::NEVER) for a key that never expires.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        self.state.expires_at
    }

    /// Returns how often the key may be used.
    #[must_use]
    pub fn limit(&self) -> UseLimit {
        self.state.limit
    }

    /// Returns how often the key was used.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.used
    }

    /// Returns how often the key can still be used; `None` if it has no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.state.limit {
            UseLimit::Uses(uses) => Some(u64::from(uses.get()).saturating_sub(self.state.used)),
            UseLimit::Unlimited => None,
        }
    }

    /// Returns the key that replaced this one after its text leaked; `None` if no key replaced it.
    #[must_use]
    pub fn successor(&self) -> Option<KeyId> {
        self.state.revoked.as_ref()?.successor
    }

    /// Returns when the key was revoked; `None` if it is not revoked.
    #[must_use]
    pub fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.state.revoked.as_ref().map(|revocation| revocation.at)
    }
}

impl From<NewKey> for Key {
    /// Returns the newly issued key: unused, not revoked, on the granted terms.
    fn from(granted: NewKey) -> Self {
        let state = KeyState::granted(granted.expires_at, granted.limit);
        Self { granted: Arc::new(granted), state }
    }
}
