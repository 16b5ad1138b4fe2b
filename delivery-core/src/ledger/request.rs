//! What a request is called that may be repeated.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a client calls a request, so that it is known when it comes again: the SHA-256 of the name, cut to 128 bits. It is known
/// beside the key that it came with, so nobody meets the requests of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId([u8; 16]);

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
