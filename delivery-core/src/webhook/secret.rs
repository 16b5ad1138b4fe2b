//! Signatures of requests, as specified by [Standard Webhooks](https://www.standardwebhooks.com).

use std::str::FromStr;

use data_encoding::{BASE64, BASE64_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::text::Invalid;

/// The prefix of a signing secret. A secret without it is accepted too, because the test vectors of the specification
/// contain such a secret.
const PREFIX: &str = "whsec_";

/// A secret that signs the requests to one receiver: `whsec_` and the base64 of 24 to 64 random bytes, as printed by
/// `printf whsec_; openssl rand -base64 32`.
#[derive(Clone)]
pub struct WebhookSigningSecret(Zeroizing<Vec<u8>>);

impl WebhookSigningSecret {
    /// Returns the signature of a request: `v1,` and the base64 of an HMAC-SHA256.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
        // HMAC accepts a key of any length, so this never fails.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        Some(format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())))
    }
}

impl FromStr for WebhookSigningSecret {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be whsec_ and the base64 of 24 to 64 bytes");
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text).trim_end_matches('=');
        let bytes = Zeroizing::new(BASE64_NOPAD.decode(encoded.as_bytes()).map_err(|_| EXPECTED)?);
        (24..=64).contains(&bytes.len()).then_some(Self(bytes)).ok_or(EXPECTED)
    }
}

crate::text::hidden!(WebhookSigningSecret);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_24_to_64_bytes_in_base64_and_is_not_shown() {
        let encoded = |length| format!("whsec_{}", BASE64.encode(&vec![7; length]));
        for (secret, accepted) in [
            (encoded(23), false),
            (encoded(24), true),
            (encoded(64), true),
            (encoded(65), false),
            (encoded(32).trim_end_matches('=').to_owned(), true),
            ("C2FVsBQIhrscChlQIMV+b5sSYspob7oD".to_owned(), true),
            ("whsec_not base64 but a good deal of text".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(secret.parse::<WebhookSigningSecret>().is_ok(), accepted, "{secret}");
        }
        assert_eq!(format!("{:?}", encoded(32).parse::<WebhookSigningSecret>().unwrap()), "WebhookSigningSecret(…)");
    }
}
