//! Encrypts short texts, such as the secrets of platforms and the search terms of a seller. The encryption key is
//! derived from a signing secret.
//!
//! A sealed text is a nonce of 24 random bytes, followed by the text, encrypted and authenticated by
//! XChaCha20-Poly1305.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::Mac;
use zeroize::Zeroizing;

use super::{Keyring, Signer, hmac};
use crate::entropy::Entropy;

/// The length of a nonce, in bytes.
const NONCE: usize = 24;

/// A text that was unsealed.
pub(crate) struct Unsealed {
    pub(crate) text: Zeroizing<String>,
    /// Whether the newest secret of the keyring sealed the text. If not, the sealed text becomes unreadable when the
    /// older secret that sealed it is removed from the keyring.
    pub(crate) is_newest: bool,
}

impl Keyring {
    /// Encrypts a text with the newest secret. The text can be unsealed only for the same `purpose`.
    pub(crate) fn seal(&self, purpose: &str, text: &str, entropy: &dyn Entropy) -> Vec<u8> {
        let mut nonce = [0; NONCE];
        entropy.fill(&mut nonce);
        let payload = Payload { msg: text.as_bytes(), aad: purpose.as_bytes() };
        // Encryption fails only for texts of more than 256 GiB.
        let encrypted = cipher(&self.newest).encrypt(&XNonce::from(nonce), payload).unwrap_or_default();
        [&nonce[..], &encrypted].concat()
    }

    /// Decrypts a text that a secret of this keyring sealed for this purpose. Returns `None` for any other bytes.
    pub(crate) fn unseal(&self, purpose: &str, sealed: &[u8]) -> Option<Unsealed> {
        let (nonce, encrypted) = sealed.split_at_checked(NONCE)?;
        let nonce = XNonce::try_from(nonce).ok()?;
        let open = |signer: &Signer| {
            let payload = Payload { msg: encrypted, aad: purpose.as_bytes() };
            let text = String::from_utf8(cipher(signer).decrypt(&nonce, payload).ok()?).ok()?;
            Some(Unsealed { text: Zeroizing::new(text), is_newest: signer.version == self.newest.version })
        };
        self.signers().find_map(open)
    }
}

/// Returns the cipher of a signing secret. The cipher's key is derived from the secret, and used for nothing else.
fn cipher(signer: &Signer) -> XChaCha20Poly1305 {
    let key: [u8; 32] = hmac(&signer.pages).chain_update("secrets of platforms").finalize().into_bytes().into();
    XChaCha20Poly1305::new(&Key::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SystemEntropy;

    fn keyring(secrets: &str) -> Keyring {
        secrets.parse().unwrap()
    }

    #[test]
    fn what_is_sealed_is_read_by_its_secret_and_for_its_purpose_alone() {
        let (old, both, new) = (
            keyring("an old secret 123"),
            keyring("a new secret 1234,an old secret 123"),
            keyring("a new secret 1234"),
        );
        let sealed = old.seal("stripe", "whsec_1", &SystemEntropy);
        assert!(!sealed.windows(7).any(|bytes| bytes == b"whsec_1"));
        let read = |keyring: &Keyring, purpose, sealed: &[u8]| {
            keyring.unseal(purpose, sealed).map(|unsealed| (unsealed.text.to_string(), unsealed.is_newest))
        };
        assert_eq!(read(&old, "stripe", &sealed), Some(("whsec_1".to_owned(), true)));
        assert_eq!(read(&both, "stripe", &sealed), Some(("whsec_1".to_owned(), false)));
        assert_eq!(read(&new, "stripe", &sealed), None);
        assert_eq!(read(&old, "paddle", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(read(&old, "stripe", &changed), None, "byte {at}");
        }
        assert_eq!(read(&old, "stripe", &sealed[..NONCE]), None);
        assert_eq!(read(&old, "stripe", b""), None);
        assert_ne!(old.seal("stripe", "whsec_1", &SystemEntropy), sealed, "a nonce of its own");
    }
}
