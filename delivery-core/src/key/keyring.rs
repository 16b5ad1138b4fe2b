//! From a key's number to its text and back: keys prove themselves.
//!
//! The text is `prefix_` and 48 characters of Crockford's base32, lower-case, for 30 bytes:
//!
//! ```text
//! ring version  2 bytes   which secret signed it
//! key id       16 bytes   a UUID version 7
//! tag          12 bytes   HMAC-SHA-256 over prefix, version and id, cut to 96 bits
//! ```
//!
//! 240 bits make exactly 48 characters, so there are no spare bits, and decoding is strict: a key has one text. The
//! ring version is derived from the secret itself. A secret keeps its version wherever it stands in the ring, and
//! retiring the oldest one renumbers nothing.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroize;

use super::KeyId;
use super::parts::{Fingerprint, KeyText, Prefix, RingVersion};
use crate::secret::SigningSecret;
use crate::text::Invalid;

const VERSION: usize = 2;
const ID: usize = 16;
const TAG: usize = 12;
const BYTES: usize = VERSION + ID + TAG;
const SYMBOLS: usize = BYTES * 8 / 5;

/// Crockford's alphabet in lower case, without his aliases: one text a key.
static BASE32: LazyLock<Option<Encoding>> = LazyLock::new(|| {
    let mut alphabet = Specification::new();
    alphabet.symbols.push_str("0123456789abcdefghjkmnpqrstvwxyz");
    alphabet.encoding().ok()
});

/// Signs and verifies keys with a ring of secrets: the newest signs, all verify.
///
/// ```
/// use delivery_core::key::{KeyId, Keyring, Prefix};
///
/// let ring = Keyring::new(Prefix::default(), &["a secret of 16 or more".parse()?])?;
/// let id = KeyId::from_bytes([7; 16]);
/// let text = ring.text(id, ring.newest());
/// assert_eq!(ring.verify(text.expose()).unwrap().id, id);
/// assert!(ring.verify("dlv_000000000000000000000000000000000000000000000000").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyring {
    prefix: Prefix,
    newest: Signer,
    older: Vec<Signer>,
}

/// A key that proved itself: made with a secret of this ring. Whether it is known, or any good, is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The key's number.
    pub id: KeyId,
}

/// A ring that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// There is no secret in it.
    #[error("a keyring needs at least one secret")]
    Empty,
    /// Two of its secrets are the same, or one in 65,536 chances made their versions the same.
    #[error("two secrets of the ring cannot be told apart: make another one")]
    Ambiguous,
}

/// Secrets separated by commas, newest first, under the usual prefix.
impl FromStr for Keyring {
    type Err = Invalid;

    fn from_str(ring: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid =
            Invalid::expected("must be different secrets of at least 16 characters, newest first, separated by commas");
        let secrets: Result<Vec<SigningSecret>, _> = ring.split(',').map(|secret| secret.trim().parse()).collect();
        Self::new(Prefix::default(), &secrets.map_err(|_| EXPECTED)?).map_err(|_| EXPECTED)
    }
}

#[derive(Clone)]
struct Signer {
    version: RingVersion,
    fingerprint: Fingerprint,
    pepper: [u8; 32],
    guessable: bool,
    /// The MAC with its key schedule and the prefix already taken in: cloning it costs less than starting anew.
    mac: Hmac<Sha256>,
}

impl Keyring {
    /// A ring of secrets, newest first.
    ///
    /// # Errors
    ///
    /// [`KeyringError`] if there is none, or two cannot be told apart.
    pub fn new(prefix: Prefix, secrets: &[SigningSecret]) -> Result<Self, KeyringError> {
        let mut signers = secrets.iter().map(|secret| Signer::new(&prefix, secret));
        let newest = signers.next().ok_or(KeyringError::Empty)?;
        let older: Vec<Signer> = signers.collect();
        let ring = Self { prefix, newest, older };
        let alike = |signer: &Signer| ring.signers().filter(|other| other.version == signer.version).count() > 1;
        if ring.signers().any(alike) { Err(KeyringError::Ambiguous) } else { Ok(ring) }
    }

    /// The version new keys are signed under.
    #[must_use]
    pub fn newest(&self) -> RingVersion {
        self.newest.version
    }

    /// Bytes that are the same for whoever has this ring and a secret to everybody else, to hash names with: from the oldest
    /// secret, so that a newer one before it changes nothing.
    #[must_use]
    pub fn pepper(&self) -> [u8; 32] {
        self.signers().last().unwrap_or(&self.newest).pepper
    }

    /// What to recognise the secrets by, newest first.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        self.signers().map(|signer| signer.fingerprint).collect()
    }

    /// Whether one of the secrets is short or simple enough that it might be found by trying. A key's text, and the
    /// database's fingerprint of the secret, both tell who tries that he has found it.
    #[must_use]
    pub fn is_guessable(&self) -> bool {
        self.signers().any(|signer| signer.guessable)
    }

    /// The text of a key: always the same for the same id, version and prefix.
    ///
    /// A key whose secret was retired from the ring is written with the newest one: its old text verifies no more.
    #[must_use]
    pub fn text(&self, id: KeyId, version: RingVersion) -> KeyText {
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

    /// The number of a key this ring signed; `None` for any other text. Costs one MAC and no I/O.
    #[must_use]
    pub fn verify(&self, text: &str) -> Option<Verified> {
        let symbols = text.strip_prefix(self.prefix.0.as_str())?.strip_prefix('_')?;
        let mut bytes = [0; BYTES];
        if symbols.len() != SYMBOLS || BASE32.as_ref()?.decode_mut(symbols.as_bytes(), &mut bytes).ok()? != BYTES {
            return None;
        }
        let (version, rest) = bytes.split_first_chunk::<VERSION>()?;
        let (id, tag) = rest.split_first_chunk::<ID>()?;
        let id = KeyId::from_bytes(*id);
        let signer = self.signer(RingVersion(u16::from_be_bytes(*version)))?;
        bool::from(signer.tag(id).as_slice().ct_eq(tag)).then_some(Verified { id })
    }

    fn signers(&self) -> impl Iterator<Item = &Signer> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    fn signer(&self, version: RingVersion) -> Option<&Signer> {
        self.signers().find(|signer| signer.version == version)
    }
}

impl Signer {
    fn new(prefix: &Prefix, secret: &SigningSecret) -> Self {
        let derive = |purpose: &str| hmac(secret.expose().as_bytes()).chain_update(purpose).finalize().into_bytes();
        let [high, low, ..] = *<&[u8; 32]>::from(&derive("delivery: ring version"));
        let version = RingVersion(u16::from_be_bytes([high, low]));
        let mut fingerprint = [0; 16];
        let digest = derive("delivery: fingerprint");
        fingerprint.iter_mut().zip([high, low].into_iter().chain(digest)).for_each(|(to, from)| *to = from);
        let pepper = derive("delivery: pepper").into();
        let mut signing_key = derive("delivery: key signature");
        // The length byte keeps (prefix, rest) unambiguous.
        let length = u8::try_from(prefix.0.len()).unwrap_or(u8::MAX);
        let mac =
            hmac(&signing_key).chain_update([length]).chain_update(&prefix.0).chain_update(version.0.to_be_bytes());
        signing_key.zeroize();
        Self { version, fingerprint: Fingerprint(fingerprint), pepper, guessable: secret.is_guessable(), mac }
    }

    fn tag(&self, id: KeyId) -> [u8; TAG] {
        let full = self.mac.clone().chain_update(id.as_bytes()).finalize().into_bytes();
        let mut tag = [0; TAG];
        tag.iter_mut().zip(full).for_each(|(to, from)| *to = from);
        tag
    }
}

/// HMAC takes a key of any length, so the error arm is never taken; it starts from the empty key rather than panic.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Acceptance;
    use super::*;

    fn parsed(secrets: &[&str]) -> Vec<SigningSecret> {
        secrets.iter().map(|secret| secret.parse().unwrap()).collect()
    }

    fn ring(secrets: &[&str]) -> Keyring {
        Keyring::new(Prefix::default(), &parsed(secrets)).unwrap()
    }

    const OLD: &str = "the first signing secret";
    const NEW: &str = "the second signing secret";

    proptest! {
        #[test]
        fn a_minted_key_verifies_and_shows_its_id(id: [u8; 16]) {
            let ring = ring(&[NEW, OLD]);
            let text = ring.text(KeyId::from_bytes(id), ring.newest());
            prop_assert_eq!(ring.verify(text.expose()), Some(Verified { id: KeyId::from_bytes(id) }));
            prop_assert_eq!(text.expose().len(), "dlv_".len() + SYMBOLS);
        }

        #[test]
        fn no_other_text_is_accepted(text in "(dlv_)?[0-9a-zA-Z_-]{0,60}") {
            prop_assert_eq!(ring(&[OLD]).verify(&text), None);
        }

        #[test]
        fn every_change_of_one_character_is_refused(id: [u8; 16], at in 0_usize..52, to in any::<char>()) {
            let ring = ring(&[OLD]);
            let text = ring.text(KeyId::from_bytes(id), ring.newest());
            let mut changed: Vec<char> = text.expose().chars().collect();
            prop_assume!(changed[at] != to);
            changed[at] = to;
            prop_assert_eq!(ring.verify(&changed.iter().collect::<String>()), None);
            changed.remove(at);
            prop_assert_eq!(ring.verify(&changed.into_iter().collect::<String>()), None);
        }
    }

    #[test]
    fn every_single_symbol_in_every_place_is_refused() {
        let ring = ring(&[OLD]);
        let text = ring.text(KeyId::from_bytes([0x5a; 16]), ring.newest());
        for at in 0..text.expose().len() {
            for to in 0..128_u8 {
                let mut changed = text.expose().as_bytes().to_vec();
                if std::mem::replace(&mut changed[at], to) != to {
                    assert_eq!(ring.verify(std::str::from_utf8(&changed).unwrap()), None, "{at} {to}");
                }
            }
        }
    }

    #[test]
    fn secrets_rotate_without_renumbering() {
        let id = KeyId::from_bytes([1; 16]);
        let (first, both, second) = (ring(&[OLD]), ring(&[NEW, OLD]), ring(&[NEW]));
        let old_text = first.text(id, first.newest());
        assert!(both.verify(old_text.expose()).is_some());
        assert_eq!(both.text(id, first.newest()), old_text, "a replayed order shows the text it was issued with");
        let new_text = both.text(id, both.newest());
        assert_ne!(new_text, old_text);
        assert!(second.verify(new_text.expose()).is_some());
        assert!(second.verify(old_text.expose()).is_none(), "a retired secret verifies nothing");
        assert_eq!(second.text(id, first.newest()), new_text);
    }

    #[test]
    fn a_store_is_opened_by_a_ring_that_has_the_secret_which_signed_most_recently() {
        let (first, both, second) =
            (ring(&[OLD]).fingerprints(), ring(&[NEW, OLD]).fingerprints(), ring(&[NEW]).fingerprints());
        let [old, new] = [ring(&[OLD]).newest(), ring(&[NEW]).newest()].map(Some);
        assert_eq!(first.iter().map(|it| Some(it.version())).collect::<Vec<_>>(), [old]);
        for (known, newest, ring, accepted) in [
            (&vec![], None, &first, Acceptance::Accepted),
            (&first, old, &first, Acceptance::Accepted),
            (&first, old, &both, Acceptance::Accepted),
            // A secret that never signed keeps nobody out.
            (&both, old, &first, Acceptance::Accepted),
            (&both, None, &second, Acceptance::Accepted),
            (&both, old, &second, Acceptance::Retired),
            (&both, new, &second, Acceptance::Accepted),
            (&both, new, &first, Acceptance::Retired),
            (&first, old, &second, Acceptance::Foreign),
        ] {
            assert_eq!(Fingerprint::accepts(known, newest, ring), accepted);
        }
    }

    #[test]
    fn another_prefix_is_another_key() {
        let id = KeyId::from_bytes([1; 16]);
        let other = Keyring::new("shop".parse().unwrap(), &parsed(&[OLD])).unwrap();
        let text = other.text(id, other.newest());
        assert!(text.expose().starts_with("shop_"));
        assert!(ring(&[OLD]).verify(&text.expose().replace("shop_", "dlv_")).is_none());
    }

    #[test]
    fn rings_that_cannot_be_used() {
        let new = |secrets: &[&str]| Keyring::new(Prefix::default(), &parsed(secrets)).err();
        assert_eq!(new(&[]), Some(KeyringError::Empty));
        assert_eq!(new(&[OLD, OLD]), Some(KeyringError::Ambiguous));
        for prefix in ["", "has_underscore", "UPPER", "seventeen-letters", "ünï"] {
            assert!(prefix.parse::<Prefix>().is_err());
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let ring = ring(&[OLD]);
        let text = ring.text(KeyId::from_bytes([1; 16]), ring.newest());
        assert_eq!(format!("{text:?} {:?}", ring.fingerprints()), "KeyText(…) [Fingerprint(…)]");
        assert_eq!(format!("{ring:?}"), r#"Keyring { prefix: "dlv", secrets: 1, .. }"#);
    }
}
