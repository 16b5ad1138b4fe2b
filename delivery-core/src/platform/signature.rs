//! The secrets of platforms, and verification of signatures made with them.

use chrono::{DateTime, TimeDelta, Utc};
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::Unauthentic;
use crate::text::Invalid;

/// The maximum number of signatures of one request that are checked. Any further signatures are ignored, so that a
/// request cannot cause much work.
const SIGNATURES: usize = 20;
/// The prefix that several platforms put before their secrets.
const PREFIX: &str = "whsec_";

/// The secrets that a platform may sign with: the current one and, while it is being replaced, the previous one.
#[derive(Clone)]
pub struct Secrets(Vec<Zeroizing<String>>);

impl Secrets {
    /// Makes a list of secrets from their texts, as the platform shows them.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if there is no secret, or if a secret is blank.
    pub fn new<T: Into<String>>(secrets: impl IntoIterator<Item = T>) -> Result<Self, Invalid> {
        let secrets: Vec<_> = secrets.into_iter().map(|secret| Zeroizing::new(secret.into())).collect();
        let are_there = !secrets.is_empty() && secrets.iter().all(|secret| !secret.trim().is_empty());
        are_there.then_some(Self(secrets)).ok_or(Invalid::expected("must be the platform's secret"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|secret| secret.as_str())
    }

    /// Returns the secrets as HMAC keys, for a platform that signs with the bytes of a secret's text.
    pub(super) fn as_text(&self) -> Keys {
        Keys::new(self.iter().map(|secret| secret.as_bytes().to_vec()))
    }
}

/// The HMAC keys that requests may be signed with.
#[derive(Clone)]
pub(super) struct Keys(Vec<Hmac<Sha256>>);

impl Keys {
    pub(super) fn new(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let keys = keys.into_iter().map(Zeroizing::new);
        // HMAC accepts a key of any length, so `filter_map` drops no key.
        Self(keys.filter_map(|key| Hmac::new_from_slice(&key).ok()).collect())
    }

    /// Checks that one of `signatures` is the MAC of the concatenated `parts` under one of the keys. Compares each of
    /// the first [`SIGNATURES`] signatures with every key's MAC, in constant time.
    pub(super) fn verify(
        &self,
        parts: &[&[u8]],
        signatures: impl IntoIterator<Item = [u8; 32]>,
    ) -> Result<(), Unauthentic> {
        let expected: Vec<[u8; 32]> = self
            .0
            .iter()
            .map(|key| {
                let mut mac = key.clone();
                for part in parts {
                    mac.update(part);
                }
                mac.finalize().into_bytes().into()
            })
            .collect();
        let mut matches = Choice::from(0);
        for signature in signatures.into_iter().take(SIGNATURES) {
            for expected in &expected {
                matches |= expected.ct_eq(&signature);
            }
        }
        if matches.into() { Ok(()) } else { Err(Unauthentic) }
    }
}

crate::text::hidden!(Secrets, Keys);

/// Returns the value of a header field that must be present exactly once and not empty.
pub(super) fn header<'r>(headers: &'r HeaderMap, name: &str) -> Result<&'r str, Unauthentic> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none()).ok_or(Unauthentic)?;
    value.to_str().ok().filter(|value| !value.is_empty()).ok_or(Unauthentic)
}

/// Decodes a MAC in lower-case hexadecimal.
pub(super) fn hex(text: &str) -> Option<[u8; 32]> {
    mac(text.len(), 64, || HEXLOWER.decode(text.as_bytes()).ok())
}

/// Decodes a MAC in padded base64.
pub(super) fn base64(text: &str) -> Option<[u8; 32]> {
    mac(text.len(), 44, || BASE64.decode(text.as_bytes()).ok())
}

/// Decodes a MAC, but only if the text has the expected length. A request may contain a megabyte of signatures, and
/// decoding all of them would take too long.
fn mac(length: usize, expected: usize, decode: impl FnOnce() -> Option<Vec<u8>>) -> Option<[u8; 32]> {
    if length == expected { decode()?.try_into().ok() } else { None }
}

/// Splits a header such as `t=1,v1=a,v1=b` into the timestamp and the hexadecimal signatures. The timestamp must occur
/// exactly once. Other names are skipped.
pub(super) fn timed<'h>(
    header: &'h str,
    separator: char,
    [timestamp, signature]: [&str; 2],
) -> Result<(&'h str, Vec<[u8; 32]>), Unauthentic> {
    let (mut time, mut signatures) = (None, Vec::new());
    for part in header.split(separator) {
        let Some((name, value)) = part.split_once('=') else { continue };
        if name == timestamp {
            if time.replace(value).is_some() {
                return Err(Unauthentic);
            }
        } else if name == signature && signatures.len() < SIGNATURES {
            signatures.extend(hex(value));
        }
    }
    Ok((time.ok_or(Unauthentic)?, signatures))
}

/// Reads Unix seconds in decimal digits.
pub(super) fn seconds(text: &str) -> Result<DateTime<Utc>, Unauthentic> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_decimal {
        return Err(Unauthentic);
    }
    // A number that is too large for a time counts as far in the future.
    Ok(text.parse().ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0)).unwrap_or(DateTime::<Utc>::MAX_UTC))
}

/// Refuses a request that was signed more than `tolerance` ago.
pub(super) fn not_older(signed: DateTime<Utc>, now: DateTime<Utc>, tolerance: TimeDelta) -> Result<(), Unauthentic> {
    // Platforms sign times in whole seconds, so fractions of a second do not count.
    let age = now.timestamp().saturating_sub(signed.timestamp());
    if age <= tolerance.num_seconds() { Ok(()) } else { Err(Unauthentic) }
}

/// Decodes a secret in base64, padded or not, with or without the prefix `whsec_`.
pub(super) fn from_base64(secret: &str) -> Option<Vec<u8>> {
    let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret).trim_end_matches('=');
    // Polar chooses every character of a secret at random, so the unused bits of the last character may be set. Such
    // secrets are accepted.
    let mut base64 = BASE64_NOPAD.specification();
    base64.check_trailing_bits = false;
    base64.encoding().ok()?.decode(encoded.as_bytes()).ok().filter(|key| !key.is_empty())
}

/// Returns an identity for a notification to which its platform gives no id: a digest of its kind and body.
pub(super) fn digest(kind: &str, body: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::new_with_prefix(kind).chain_update([0]).chain_update(body).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_signature_has_one_time() {
        let mac = "ab".repeat(32);
        for (header, expected) in [
            (format!("t=1,v1={mac}"), Ok(1)),
            (format!("t=1,v1={mac},v0={mac},v1=potato,v1={mac}"), Ok(2)),
            (format!("t=1,t=2,v1={mac}"), Err(Unauthentic)),
            (format!("v1={mac}"), Err(Unauthentic)),
            (format!("t=1, v1={mac}"), Ok(0)),
            (format!("t=1,v1={}", mac.to_uppercase()), Ok(0)),
            (format!("t=1{}", format!(",v1={mac}").repeat(10_000)), Ok(SIGNATURES)),
        ] {
            let read = timed(&header, ',', ["t", "v1"]).map(|(_, signatures)| signatures.len());
            assert_eq!(read, expected, "{}", &header[..header.len().min(120)]);
        }
    }

    #[test]
    fn times_are_decimal_digits() {
        for (text, accepted) in [
            ("1767261845", true),
            ("", false),
            ("-1", false),
            ("+1", false),
            ("1.5", false),
            ("hello", false),
            // Too large for a time: it counts as far in the future, which is not too old.
            ("99999999999999999999", true),
        ] {
            assert_eq!(seconds(text).is_ok(), accepted, "{text:?}");
        }
    }

    #[test]
    fn secrets_are_not_blank_and_not_shown() {
        assert!(Secrets::new(["", "b"]).is_err() && Secrets::new([" \t"]).is_err());
        assert!(Secrets::new(Vec::<String>::new()).is_err());
        assert_eq!(format!("{:?}", Secrets::new(["a-secret"]).unwrap()), "Secrets(…)");
    }
}
