//! Requests that may be repeated: a buyer whose answer was lost asks again, and spends nothing.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::key::Key;
use crate::product::ProductId;

/// How long a request is known after it was first made.
pub const KNOWN_FOR: TimeDelta = TimeDelta::hours(24);
/// How often a request is answered again without counting. After that each counts.
pub const MOST_REPEATS: u32 = 10;

/// What a client calls a request, so that it is known when it comes again: the SHA-256 of the name, cut to 128 bits. It is known
/// beside the key that it came with, so nobody meets the requests of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId([u8; 16]);

/// A use of a key whose request may come again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks builds it")]
pub struct Fetch {
    /// The product asked for.
    pub product: ProductId,
    /// When.
    pub at: DateTime<Utc>,
    /// The request.
    pub request: RequestId,
}

/// A use that was allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Fetched {
    /// The key as it is now.
    pub key: Key,
    /// Whether the request is known, and counted before.
    pub is_repeat: bool,
}

impl RequestId {
    /// The request that its client calls so.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        let mut id = [0; 16];
        id.iter_mut().zip(Sha256::digest(name)).for_each(|(to, from)| *to = from);
        Self(id)
    }

    /// A request as a store kept it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes that a store keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}
