//! The types around a key's text: prefix, secret version, fingerprint, and the text itself.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::text::Invalid;

/// The text with which every key begins, before the underscore: 1 to 12 lower-case ASCII letters or digits. The default
/// is `dlv`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(pub(super) String);

/// Identifies which secret of a keyring signed a key. The number is derived from the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretVersion(pub(super) u16);

/// A fingerprint of a signing secret and a key prefix, by which a store recognises both. It has 16 bytes and cannot be
/// used to sign keys. The first two bytes are the secret's [`SecretVersion`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub(super) [u8; 16]);

/// Whether a store may be used with the secrets of a keyring. Below, a secret of the store is a secret with which the
/// store was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a ledger must decide on every outcome")]
pub enum Acceptance {
    /// The store may be used: it is new, or the keyring contains the secret that signed the newest key. While no key
    /// has been signed, any secret of the store is enough.
    Accepted,
    /// The keyring contains secrets of the store, but not the one that signed the newest key.
    Retired,
    /// The keyring contains none of the store's secrets.
    Foreign,
}

/// A key's text. It is secret, zeroised when dropped, and shown only by [`expose`](Self::expose).
#[derive(Clone)]
pub struct KeyText(pub(super) String);

/// Compares texts of the same length in constant time.
impl PartialEq for KeyText {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for KeyText {}

impl Default for Prefix {
    fn default() -> Self {
        Self("dlv".to_owned())
    }
}

impl FromStr for Prefix {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let accepted = (1..=12).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        accepted.then(|| Self(text.to_owned())).ok_or(Invalid::expected("must be 1 to 12 lower-case letters or digits"))
    }
}

impl SecretVersion {
    /// Returns the number to store.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }

    /// Restores a version from its stored number.
    #[must_use]
    pub fn from_stored(version: u16) -> Self {
        Self(version)
    }
}

impl Fingerprint {
    /// Returns the bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Restores a fingerprint from its stored bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the version of the secret. Every key that the secret signs contains this version.
    #[must_use]
    pub fn version(&self) -> SecretVersion {
        let [high, low, ..] = self.0;
        SecretVersion(u16::from_be_bytes([high, low]))
    }

    /// Decides whether a store may be used with a keyring.
    ///
    /// - `known` are the fingerprints of the secrets that the store was used with. A new store has none.
    /// - `newest` is the version of the secret that signed the store's newest key; `None` if the store has no key.
    /// - `keyring` are the fingerprints of the keyring's secrets.
    ///
    /// A new store is accepted. Any other store is accepted if the keyring contains one of the `known` secrets and also
    /// the secret `newest`, unless that is `None`. Without the secret `newest`, keys that were just sold would be
    /// invalid.
    #[must_use]
    pub fn accepts(known: &[Self], newest: Option<SecretVersion>, keyring: &[Self]) -> Acceptance {
        if known.is_empty() {
            return Acceptance::Accepted;
        }
        if !keyring.iter().any(|fingerprint| known.contains(fingerprint)) {
            return Acceptance::Foreign;
        }
        let holds = |version| keyring.iter().any(|fingerprint| fingerprint.version() == version);
        if newest.is_none_or(holds) { Acceptance::Accepted } else { Acceptance::Retired }
    }
}

impl KeyText {
    /// Returns the text itself. Show it only to the buyer.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for KeyText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

crate::text::hidden!(KeyText, Fingerprint);

crate::text::serde_as_number!(
    SecretVersion,
    u16,
    |number| Ok::<_, Invalid>(SecretVersion::from_stored(number)),
    SecretVersion::get
);
