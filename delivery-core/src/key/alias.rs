//! Aliases of keys: MACs of key texts that were made elsewhere.

use serde::{Deserialize, Serialize};

/// A MAC of a key text that was made elsewhere and imported. A store finds the imported key by this MAC. The text
/// cannot be computed from the MAC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alias([u8; 32]);

impl Alias {
    /// Wraps a MAC of 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

crate::text::hidden!(Alias);
