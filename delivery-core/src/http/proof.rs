//! Proofs that a caller was authenticated. Their fields are private, and only the [pipeline](super::pipeline) and
//! [`Grant`](super::Grant) construct them, so a handler that takes a proof cannot run without the check.

use super::Call;
use crate::delivery::Delivery;
use crate::key::{Actor, KeyId};
use crate::seller::Head;

/// The id of a key whose text verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerifiedKey(KeyId);

/// The commerce platform sent the webhook secret.
#[derive(Debug)]
pub(super) struct Platform(());

/// The seller, by name.
#[derive(Debug)]
pub(super) struct Seller(#[expect(dead_code, reason = "what the seller changes has its own name yet")] Actor);

impl VerifiedKey {
    /// Costs one MAC.
    pub(super) fn of(delivery: &Delivery, text: &str) -> Option<Self> {
        delivery.verify(text).map(Self)
    }

    pub(super) fn id(self) -> KeyId {
        self.0
    }
}

impl Platform {
    pub(super) fn of(delivery: &Delivery, secret: &str) -> Option<Self> {
        delivery.inner.webhook_secret.as_ref()?.matches(secret).then_some(Self(()))
    }
}

impl Seller {
    pub(super) async fn of(delivery: &Delivery, call: &Call) -> Option<Self> {
        let head = Head::new(&call.headers, &call.extensions, call.peer);
        delivery.inner.seller.as_ref()?.authenticate(&head).await.map(Self)
    }
}
