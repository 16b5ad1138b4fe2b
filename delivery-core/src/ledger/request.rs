//! The identity of a request that has an idempotency key.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The identity of a client's request, by which a repetition of the request is recognised. It is the first 128 bits of
/// the SHA-256 of the name that the client gave to the request, for example in the header `Idempotency-Key`. Requests
/// are stored separately for each API key, so equal names of requests with different API keys do not collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId([u8; 16]);

impl RequestId {
    /// Returns the identity of the request with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        let mut id = [0; 16];
        id.iter_mut().zip(Sha256::digest(name)).for_each(|(to, from)| *to = from);
        Self(id)
    }

    /// Restores an identity from stored bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}
