//! Proofs that a caller was authenticated. A proof is a value of a type with private fields. The functions here that
//! construct proofs check the caller's credential first. So a handler that takes a proof as an argument cannot run
//! without the check.

use super::Call;
use super::error::ApiError;
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::key::{Actor, KeyId};
use crate::limit::bodies::Kept;
use crate::seller::Head;
use crate::{
    order::Source,
    platform::{Notification, Received, Request, Unauthentic},
};

/// The id of a key, as proof that the caller sent the authentic text of the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerifiedKey(KeyId);

/// Proof that the caller sent the webhook secret that this service shares with the commerce platform.
#[derive(Debug)]
pub(super) struct SharedSecret(());

/// Proof that the seller is authenticated, with the seller's name for the audit log.
#[derive(Debug)]
pub(super) struct Seller(Actor);

/// A notification from a commerce platform, as proof that the platform signed it.
#[derive(Debug)]
pub(super) struct Event(Source, Notification);

/// The result of checking the signature of a webhook request.
pub(super) enum Judged {
    Event(Event),
    /// A connection test of the platform, which is not signed.
    Ping,
    Unauthentic,
    /// The service has no platform of this name, or no usable secret for the platform.
    Unknown,
}

impl Judged {
    /// Returns whether the result may change if the secret of the platform is read from the store again. The seller may
    /// have set or replaced the secret since this server last read it.
    pub(super) fn may_change(&self, delivery: &Delivery, name: &str) -> bool {
        matches!(self, Self::Unauthentic | Self::Unknown) && delivery.inner.platforms.is_settable(name)
    }
}

impl Event {
    pub(super) fn judge(delivery: &Delivery, name: &str, call: &Call, body: &[u8]) -> Judged {
        let Some(platform) = delivery.inner.platforms.named(name) else { return Judged::Unknown };
        let query = call.query.as_deref().unwrap_or_default();
        let request = Request { headers: &call.headers, query, body, now: delivery.inner.clock.now() };
        match platform.read(&request) {
            Ok(Received::Notification(notification)) => Judged::Event(Self(platform.name(), notification)),
            Ok(Received::Ping) => Judged::Ping,
            Err(Unauthentic) => Judged::Unauthentic,
        }
    }

    /// Reads the secrets of the platforms from the store again, and then checks the signature of the request once more.
    /// The store may be slow, so the body counts against the memory budget of unauthenticated bodies until then. If it
    /// has to give way to younger bodies, the reply is a 503, and the platform sends the request again later.
    pub(super) async fn judge_again(
        delivery: &Delivery,
        name: &str,
        call: &Call,
        body: Kept<'_>,
    ) -> Result<Judged, ApiError> {
        delivery.read_secrets().await?;
        let judged = Self::judge(delivery, name, call, &body.finish()?);
        // If the stored secret is unusable, for example because it cannot be decrypted, the signature cannot be
        // checked. A 503 makes the platform send the request again later.
        if matches!(judged, Judged::Unknown) && delivery.inner.platforms.is_unreadable(name) {
            return Err(ErrorCode::Unavailable.into());
        }
        Ok(judged)
    }

    pub(super) fn into_parts(self) -> (Source, Notification) {
        (self.0, self.1)
    }
}

impl VerifiedKey {
    /// Verifies the text of a key by computing its message authentication code (MAC). Reads the store only if the store
    /// has imported keys and the text may be one of them. Callers look the text up before they count a failure, so an
    /// imported key works even if wrong keys from the same address have used up the `failures` quota. Returns `None` if
    /// the text is not the authentic text of a key.
    pub(super) async fn of(delivery: &Delivery, text: &str) -> Result<Option<Self>, Error> {
        Ok(delivery.identify(text).await?.map(Self))
    }

    pub(super) fn id(self) -> KeyId {
        self.0
    }
}

impl SharedSecret {
    pub(super) fn of(delivery: &Delivery, secret: &str) -> Option<Self> {
        delivery.inner.webhook_secret.as_ref()?.matches(secret).then_some(Self(()))
    }
}

impl Seller {
    pub(super) async fn of(delivery: &Delivery, call: &Call) -> Option<Self> {
        let head = Head::new(&call.headers, &call.extensions, call.peer);
        let seller = delivery.inner.seller.as_ref()?.authenticate(&head).await.map(Self);
        // Only a request with a bearer token is an attempt to sign in, so only such a request is recorded as a failure.
        if seller.is_none() && head.bearer().is_some() {
            delivery.inner.note_wrong_sign_in();
        }
        seller
    }

    /// Returns the seller's name for the audit log.
    pub(super) fn actor(&self) -> &Actor {
        &self.0
    }
}
