//! Sessions of sellers who are signed in at the desk (the seller's web pages).

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;
use crate::key::Actor;

/// Sessions of sellers who are signed in at the desk, for stores that keep them. A store never uses a clock of its own
/// to decide whether a session has expired. It compares the expiry time only with the times that its caller gives.
///
/// # To ensure correctness
///
/// * Once [`sign_out`](Self::sign_out) has returned, no server may find the session.
#[async_trait]
pub trait SignIns: Send + Sync {
    /// Stores a session, durably.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the session may not have been saved.
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError>;

    /// Returns the session with this id, even if it has expired; `None` if there is no such session.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError>;

    /// Deletes a session, durably, so that its secret is no longer valid anywhere. Does nothing if there is no such
    /// session.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the session may not have been deleted.
    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError>;

    /// Deletes sessions that expired before `before`. Returns how many sessions were deleted.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these sessions may not have been deleted.
    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}

/// The id of a session: a MAC of the session's secret, from which the secret cannot be computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignInId([u8; 32]);

/// The session of a seller who has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct SignIn {
    /// The session's id.
    pub id: SignInId,
    /// The seller.
    pub actor: Actor,
    /// A MAC of the token with which the seller signed in. The session is no longer valid once that token is removed or
    /// replaced.
    pub token: [u8; 32],
    /// When the session expires, to the second.
    pub expires_at: DateTime<Utc>,
}

impl SignInId {
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

crate::text::hidden!(SignInId);
