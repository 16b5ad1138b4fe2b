//! Who is signed in at the desk.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;
use crate::key::Actor;

/// Sessions of the desk, for stores that keep them. A store compares their ends with the times that it is given, and has no clock of its own
/// for them.
#[async_trait]
pub trait SignIns: Send + Sync {
    /// Keeps a session, durably.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it was possibly not kept.
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError>;

    /// The session with this id, also one that is over.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError>;

    /// Ends a session for everybody who has its secret, durably. There may be none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may not have ended.
    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError>;

    /// Deletes sessions that ended before `before`, and returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}

/// Which session: a MAC of its secret, from which the secret cannot be found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignInId([u8; 32]);

/// A seller who has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever signs in builds it")]
pub struct SignIn {
    /// Which one.
    pub id: SignInId,
    /// Who it is.
    pub actor: Actor,
    /// A MAC of the token that signed in: the session ends when there is no such token any more.
    pub token: [u8; 32],
    /// When it ends, to the second.
    pub expires_at: DateTime<Utc>,
}

impl SignInId {
    /// A MAC of 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes that a store keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SignInId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignInId(…)")
    }
}
