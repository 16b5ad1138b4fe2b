//! The source of random bytes, which a test can replace.
//!
//! Key ids, generated secrets, nonces and retry jitter come from an [`Entropy`]. [`SystemEntropy`] is the default and
//! is cryptographically secure. `SeededEntropy` of the crate `delivery-testing` is deterministic, and is for tests
//! only.
//!
//! # Implementing `Entropy`
//!
//! ```
//! use delivery_core::Entropy;
//!
//! /// For a test that wants to know the id in advance.
//! #[derive(Debug)]
//! struct Sevens;
//!
//! impl Entropy for Sevens {
//!     fn fill(&self, bytes: &mut [u8]) { bytes.fill(7) }
//! }
//! ```

use std::fmt::Debug;

use rand::Rng;

/// A source of random bytes. See the [module documentation](self) for an example of an implementation.
///
/// # To ensure correctness
///
/// In production, an implementation must be a cryptographically secure generator:
///
/// * Every byte is filled.
/// * Nobody can predict the bytes. The secrets of sessions and the names of objects in an object store contain them.
/// * Bytes do not repeat, neither after a restart nor on another server. Secrets of platforms are encrypted with nonces
///   of 24 bytes, and the id of a key consists of a timestamp and 74 random bits. No nonce and no id may occur twice.
///   Guessing an id does not help to forge a key, because a key carries a MAC.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The thread-local CSPRNG of the `rand` crate (ChaCha12, seeded and reseeded by the operating system), used by
/// default.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this file owns the system's randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// Returns a number in `0.0..1.0` with 32 random bits.
pub(crate) fn fraction(entropy: &dyn Entropy) -> f64 {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
