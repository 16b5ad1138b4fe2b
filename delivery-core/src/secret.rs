//! Shared secrets: compared in constant time, never shown.

use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::text::Invalid;

/// The minimum length of a secret, in characters. White space at its ends does not count.
pub const MIN_SECRET: usize = 16;

/// A secret whose estimated strength is less than this number of bits counts as guessable. NIST SP 800-131A requires
/// keys with a strength of at least 112 bits.
const STRONG: f64 = 112.0;

const EXPECTED: Invalid = Invalid::expected("must be at least 16 characters without control characters");

/// The secret that a commerce platform sends with each order at `POST /api/webhook/order`.
#[derive(Clone)]
pub struct WebhookSecret(Digested);

/// The bearer token of the admin endpoints.
#[derive(Clone)]
pub struct AdminToken(Digested);

/// A secret that signs keys. It is zeroised when dropped.
#[derive(Clone)]
pub struct SigningSecret(Zeroizing<String>);

/// A secret of which only the SHA-256 digest is kept. Comparing digests always takes the same time. The time depends
/// neither on the length of the kept secret nor on where the two secrets differ.
#[derive(Clone)]
struct Digested([u8; 32]);

impl Digested {
    fn of(secret: &str) -> Result<Self, Invalid> {
        acceptable(secret).then(|| Self(Sha256::digest(secret).into())).ok_or(EXPECTED)
    }

    fn matches(&self, presented: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        self.0.ct_eq(&presented).into()
    }
}

fn acceptable(secret: &str) -> bool {
    secret.trim().chars().count() >= MIN_SECRET && !secret.chars().any(char::is_control)
}

impl WebhookSecret {
    /// Compares `presented` with the secret, in constant time.
    #[must_use]
    pub fn matches(&self, presented: &str) -> bool {
        self.0.matches(presented.as_bytes())
    }
}

impl AdminToken {
    /// Compares `presented` with the token, in constant time.
    #[must_use]
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.matches(presented)
    }

    /// Returns the SHA-256 digest of the token.
    #[cfg(feature = "pages")]
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.0.0
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.0.ct_eq(&other.0.0).into()
    }
}

impl SigningSecret {
    /// Returns the secret itself, from which HMAC keys are derived.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl SigningSecret {
    /// Estimates whether the secret has a strength of fewer than [`STRONG`] bits. The estimated strength is the
    /// secret's length times the base-2 logarithm of its number of distinct characters. This estimate is too high for
    /// words and dates, and too low for a short random text.
    pub(crate) fn is_guessable(&self) -> bool {
        let distinct: std::collections::HashSet<char> = self.0.chars().collect();
        let bits = self.0.chars().map(|_| f64::from(u32::try_from(distinct.len()).unwrap_or(u32::MAX)).log2());
        bits.sum::<f64>() < STRONG
    }
}

impl FromStr for WebhookSecret {
    type Err = Invalid;

    fn from_str(secret: &str) -> Result<Self, Invalid> {
        Digested::of(secret).map(Self)
    }
}

impl FromStr for AdminToken {
    type Err = Invalid;

    /// Accepts a token only if it can follow `Authorization: Bearer` unchanged.
    fn from_str(token: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be at least 16 characters of visible ASCII without spaces");
        let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
        Digested::of(token).ok().filter(|_| visible).map(Self).ok_or(EXPECTED)
    }
}

impl FromStr for SigningSecret {
    type Err = Invalid;

    fn from_str(secret: &str) -> Result<Self, Invalid> {
        acceptable(secret).then(|| Self(Zeroizing::new(secret.to_owned()))).ok_or(EXPECTED)
    }
}

crate::text::hidden!(WebhookSecret, AdminToken, SigningSecret);

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    #[test]
    fn only_the_very_secret_matches() {
        let secret: WebhookSecret = SECRET.parse().unwrap();
        let token: AdminToken = SECRET.parse().unwrap();
        for (presented, matches) in [
            (SECRET, true),
            ("0123456789abcde", false),
            ("0123456789abcdef ", false),
            ("0123456789ABCDEF", false),
            ("", false),
        ] {
            assert_eq!(secret.matches(presented), matches, "{presented:?}");
            assert_eq!(token.matches(presented.as_bytes()), matches, "{presented:?}");
        }
    }

    #[test]
    fn secrets_that_could_be_guessed() {
        for (secret, guessable) in [
            (SECRET, true),
            ("hunter2-hunter2-hunter2", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
            ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", false),
            ("h0pg38fwj6dx4z0pjmq0maxtp90kwfe03x8qtjpjrh2bg4vq", false),
            ("kX2v9QmT4pLs8RbWc7Yd1Zn=", true),
        ] {
            assert_eq!(secret.parse::<SigningSecret>().unwrap().is_guessable(), guessable, "{secret}");
        }
    }

    #[test]
    fn short_secrets_are_refused_and_none_is_shown() {
        assert_eq!("0123456789abcde".parse::<SigningSecret>().err(), Some(EXPECTED));
        assert!(
            "0123456789 abcdef".parse::<AdminToken>().is_err() && "0123456789abcdéf".parse::<AdminToken>().is_err()
        );
        assert_eq!("0123456789abcde\n".parse::<WebhookSecret>().err(), Some(EXPECTED));
        for shown in [
            format!("{:?}", SECRET.parse::<WebhookSecret>().unwrap()),
            format!("{:?}", SECRET.parse::<AdminToken>().unwrap()),
            format!("{:?}", SECRET.parse::<SigningSecret>().unwrap()),
        ] {
            assert!(shown.ends_with("(…)") && !shown.contains(SECRET));
        }
    }
}
