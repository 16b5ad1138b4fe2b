//! Converts key ids to key texts, and verifies texts by the MAC in them.
//!
//! The text of a key is `prefix_`, followed by 48 characters. These are 30 bytes in Crockford's base32, in lower case:
//!
//! ```text
//! secret version   2 bytes   identifies the secret that signed the key
//! key id          16 bytes   a UUID version 7
//! tag             12 bytes   HMAC-SHA-256 over prefix, version and id, truncated to 96 bits
//! ```
//!
//! 240 bits make exactly 48 characters, so there are no spare bits, and decoding is strict. A key signed with a given
//! secret therefore has exactly one text. The secret version is derived from the secret itself, so it does not depend
//! on the secret's place in the keyring.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroize;

use super::parts::{Fingerprint, KeyText, Prefix, SecretVersion};
use super::{Alias, KeyId};
use crate::secret::SigningSecret;
use crate::text::{Invalid, line};

const VERSION: usize = 2;
const ID: usize = 16;
const TAG: usize = 12;
const BYTES: usize = VERSION + ID + TAG;
/// The number of characters of a key after its prefix and the underscore.
const SYMBOLS: usize = BYTES * 8 / 5;

/// Crockford's alphabet in lower case, without its aliases, such as `o` for `0`, so that each key has one text. The
/// value is never `None`: the `Option` only avoids code that can panic.
static BASE32: LazyLock<Option<Encoding>> = LazyLock::new(|| {
    let mut alphabet = Specification::new();
    alphabet.symbols.push_str("0123456789abcdefghjkmnpqrstvwxyz");
    alphabet.encoding().ok()
});

/// Signs and verifies keys with a list of secrets. The newest secret signs new keys. A key verifies if any of the
/// secrets signed it.
///
/// ```
/// use delivery_core::key::{KeyId, Keyring, Prefix};
///
/// let keyring = Keyring::new(Prefix::default(), &["a secret of 16 or more".parse()?])?;
/// let id = KeyId::from_bytes([7; 16]);
/// let text = keyring.text(id, keyring.newest());
/// assert_eq!(keyring.verify(text.expose()), Some(id));
/// assert_eq!(keyring.verify("dlv_000000000000000000000000000000000000000000000000"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyring {
    prefix: Prefix,
    newest: Signer,
    older: Vec<Signer>,
}

/// A keyring that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The keyring has no secret.
    #[error("a keyring needs at least one secret")]
    Empty,
    /// Two secrets are the same, or the versions that are computed from them are the same. Two different secrets have
    /// the same version with a probability of 1 in 65,536.
    #[error("two secrets of the keyring cannot be told apart: make another one")]
    Ambiguous,
}

impl FromStr for Keyring {
    type Err = Invalid;

    /// Parses different secrets of at least 16 characters, newest first, separated by commas. The prefix is the default
    /// one.
    fn from_str(keyring: &str) -> Result<Self, Invalid> {
        Self::read(Prefix::default(), keyring)
    }
}

#[derive(Clone)]
struct Signer {
    version: SecretVersion,
    fingerprint: Fingerprint,
    pepper: [u8; 32],
    pages: [u8; 32],
    guessable: bool,
    /// A MAC that has already processed its key, the prefix and the version. Cloning it costs less than starting a new
    /// one.
    mac: Hmac<Sha256>,
}

impl Keyring {
    /// Reads different secrets of at least 16 characters, newest first, separated by commas.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `secrets` is not such a list, or if two secrets have the same version.
    pub fn read(prefix: Prefix, secrets: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid =
            Invalid::expected("must be different secrets of at least 16 characters, newest first, separated by commas");
        let secrets: Result<Vec<SigningSecret>, _> = secrets.split(',').map(|secret| secret.trim().parse()).collect();
        Self::new(prefix, &secrets.map_err(|_| EXPECTED)?).map_err(|_| EXPECTED)
    }

    /// Creates a keyring of secrets, newest first. A store that has been used with one prefix refuses a keyring with
    /// another prefix, because the store's keys would not verify.
    ///
    /// # Errors
    ///
    /// [`KeyringError`] if there is no secret, or if two secrets have the same version.
    pub fn new(prefix: Prefix, secrets: &[SigningSecret]) -> Result<Self, KeyringError> {
        let mut signers = secrets.iter().map(|secret| Signer::new(&prefix, secret));
        let newest = signers.next().ok_or(KeyringError::Empty)?;
        let older: Vec<Signer> = signers.collect();
        let keyring = Self { prefix, newest, older };
        let alike = |signer: &Signer| keyring.signers().filter(|other| other.version == signer.version).count() > 1;
        if keyring.signers().any(alike) { Err(KeyringError::Ambiguous) } else { Ok(keyring) }
    }

    /// Returns the version of the newest secret, which signs new keys.
    #[must_use]
    pub fn newest(&self) -> SecretVersion {
        self.newest.version
    }

    /// Returns a secret for hashing data such as client addresses. It is the same on all servers with this keyring. It
    /// is derived from the oldest signing secret, so adding a newer signing secret does not change it.
    #[must_use]
    pub fn pepper(&self) -> [u8; 32] {
        self.signers().last().unwrap_or(&self.newest).pepper
    }

    /// Returns a MAC of `bytes`, such as for a ticket, by the newest secret. The key of the MAC depends on `purpose`,
    /// so a MAC made for one purpose is not valid for another. The key of the MAC is not derived from the
    /// [pepper](Self::pepper), because host applications may read the pepper.
    pub(crate) fn mac(&self, purpose: &str, bytes: &[u8]) -> [u8; 32] {
        self.newest.mac(purpose, bytes)
    }

    /// Returns the MACs of `bytes` by each secret, newest first. A MAC by any of them is valid, because servers have
    /// the same secrets in different orders while the newest secret is being replaced.
    pub(crate) fn macs(&self, purpose: &str, bytes: &[u8]) -> impl Iterator<Item = [u8; 32]> {
        self.signers().map(move |signer| signer.mac(purpose, bytes))
    }

    /// Returns the prefix of the texts of keys.
    #[cfg(feature = "pages")]
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix.0
    }

    /// Returns the fingerprints of the secrets, newest first.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        self.signers().map(|signer| signer.fingerprint).collect()
    }

    /// Returns whether one of the secrets is so short or simple that it might be found by guessing. An attacker can
    /// confirm a guess with the text of a key, or with the secret's fingerprint in the database.
    #[must_use]
    pub fn is_guessable(&self) -> bool {
        self.signers().any(|signer| signer.guessable)
    }

    /// Returns the text of a key. It is always the same for the same id, version and prefix.
    ///
    /// If the key's secret was removed from the keyring, the text is signed with the newest secret. The key's old text
    /// is then no longer valid.
    #[must_use]
    pub fn text(&self, id: KeyId, version: SecretVersion) -> KeyText {
        let signer = self.signer(version).unwrap_or(&self.newest);
        let mut bytes = [0; BYTES];
        let (head, tag) = bytes.split_at_mut(VERSION + ID);
        let (version, number) = head.split_at_mut(VERSION);
        version.copy_from_slice(&signer.version.0.to_be_bytes());
        number.copy_from_slice(id.as_bytes());
        tag.copy_from_slice(&signer.tag(id));
        let mut text = String::with_capacity(self.prefix.0.len() + 1 + SYMBOLS);
        text.push_str(&self.prefix.0);
        text.push('_');
        if let Some(base32) = &*BASE32 {
            base32.encode_append(&bytes, &mut text);
        }
        bytes.zeroize();
        KeyText(text)
    }

    /// Returns the id of a key that this keyring signed; `None` for any other text. This costs one MAC and no I/O. The
    /// store may not know the key, and the key may be revoked, expired or used up.
    #[must_use]
    pub fn verify(&self, text: &str) -> Option<KeyId> {
        let bytes = self.decoded(text)?;
        let (version, rest) = bytes.split_first_chunk::<VERSION>()?;
        let (id, tag) = rest.split_first_chunk::<ID>()?;
        let id = KeyId::from_bytes(*id);
        let signer = self.signer(SecretVersion(u16::from_be_bytes(*version)))?;
        bool::from(signer.tag(id).as_slice().ct_eq(tag)).then_some(id)
    }

    /// Returns whether `text` has the form of the texts that this keyring makes. Such a text is a key of this keyring,
    /// or it is forged.
    #[must_use]
    pub fn is_ours(&self, text: &str) -> bool {
        self.decoded(text).is_some()
    }

    /// Returns whether `text` may be the text of a key that was made elsewhere: 8 to 512 characters without control
    /// characters, and not in [the form](Self::is_ours) of this keyring.
    #[must_use]
    pub fn is_foreign(&self, text: &str) -> bool {
        line(text, 8, 512) && !self.is_ours(text)
    }

    /// Returns the aliases of a text that was made elsewhere: its MACs by each secret, newest first.
    #[must_use]
    pub fn aliases(&self, text: &str) -> Vec<Alias> {
        self.macs("imported key", text.as_bytes()).map(Alias::from_bytes).collect()
    }

    /// Returns the bytes in a text that has the form of a key: version, id and tag. They are not verified.
    fn decoded(&self, text: &str) -> Option<[u8; BYTES]> {
        let symbols = text.strip_prefix(self.prefix.0.as_str())?.strip_prefix('_')?;
        let mut bytes = [0; BYTES];
        let is_whole =
            symbols.len() == SYMBOLS && BASE32.as_ref()?.decode_mut(symbols.as_bytes(), &mut bytes).ok()? == BYTES;
        is_whole.then_some(bytes)
    }

    /// Finds the text of a key in `pasted`, such as a link or a sentence. Case is ignored, and so is every character
    /// other than ASCII letters, digits and `_`. If `pasted` contains no key that verifies, returns `pasted` without
    /// the spaces around it.
    #[cfg(feature = "pages")]
    pub(crate) fn in_pasted(&self, pasted: &str) -> String {
        let begin = format!("{}_", self.prefix.0);
        let plain: String =
            pasted.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').map(|c| c.to_ascii_lowercase()).collect();
        let key = |at: usize| plain.get(at..at + begin.len() + SYMBOLS).filter(|text| self.verify(text).is_some());
        let found = plain.match_indices(&begin).find_map(|(at, _)| key(at));
        found.map_or_else(|| pasted.trim().to_owned(), str::to_owned)
    }

    fn signers(&self) -> impl Iterator<Item = &Signer> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    fn signer(&self, version: SecretVersion) -> Option<&Signer> {
        self.signers().find(|signer| signer.version == version)
    }
}

impl Signer {
    fn new(prefix: &Prefix, secret: &SigningSecret) -> Self {
        let derive = |purpose: &str| hmac(secret.expose().as_bytes()).chain_update(purpose).finalize().into_bytes();
        let [high, low, ..] = *<&[u8; 32]>::from(&derive("delivery: ring version"));
        let version = SecretVersion(u16::from_be_bytes([high, low]));
        let mut fingerprint = [0; 16];
        // The fingerprint depends on the prefix, so that a store refuses a keyring with another prefix. The default
        // prefix is left out, as in the fingerprints that were stored before the prefix could be chosen.
        let suffix = if *prefix == Prefix::default() { "" } else { prefix.0.as_str() };
        let digest = derive(&format!("delivery: fingerprint{suffix}"));
        fingerprint.iter_mut().zip([high, low].into_iter().chain(digest)).for_each(|(to, from)| *to = from);
        let pepper = derive("delivery: pepper").into();
        let pages = derive("delivery: pages").into();
        let mut signing_key = derive("delivery: key signature");
        // The length of the prefix comes first, so that the bytes show where the prefix ends.
        let length = u8::try_from(prefix.0.len()).unwrap_or(u8::MAX);
        let mac =
            hmac(&signing_key).chain_update([length]).chain_update(&prefix.0).chain_update(version.0.to_be_bytes());
        signing_key.zeroize();
        Self { version, fingerprint: Fingerprint(fingerprint), pepper, pages, guessable: secret.is_guessable(), mac }
    }

    fn mac(&self, purpose: &str, bytes: &[u8]) -> [u8; 32] {
        let key = hmac(&self.pages).chain_update(purpose).finalize().into_bytes();
        hmac(&key).chain_update(bytes).finalize().into_bytes().into()
    }

    fn tag(&self, id: KeyId) -> [u8; TAG] {
        let full = self.mac.clone().chain_update(id.as_bytes()).finalize().into_bytes();
        let mut tag = [0; TAG];
        tag.iter_mut().zip(full).for_each(|(to, from)| *to = from);
        tag
    }
}

/// Creates an HMAC with this key. HMAC accepts a key of any length, so there is never an error. The fallback to an
/// all-zero key only avoids code that can panic.
fn hmac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default()))
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("prefix", &self.prefix.0)
            .field("secrets", &(1 + self.older.len()))
            .finish_non_exhaustive()
    }
}

mod sealed;
#[cfg(test)]
mod tests;
