//! Proofs that a caller was authenticated. Their fields are private, and only the [pipeline](super::pipeline) and
//! [`Grant`](super::Grant) construct them, so a handler that takes a proof cannot run without the check.

use super::{Call, query};
use crate::delivery::Delivery;
use crate::key::KeyId;

/// The id of a key whose text verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerifiedKey(KeyId);

/// The commerce platform sent the webhook secret.
#[derive(Debug)]
pub(super) struct Platform(());

/// The seller sent the admin token.
#[derive(Debug)]
pub(super) struct Seller(());

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
        delivery.inner.webhook_secret.matches(secret).then_some(Self(()))
    }
}

impl Seller {
    /// A missing token, another scheme, two tokens and a wrong token all give `None`, so that a caller cannot tell them
    /// apart.
    pub(super) fn of(delivery: &Delivery, call: &Call) -> Option<Self> {
        let token = query::bearer(call).ok().flatten()?;
        delivery.inner.admin_token.matches(token.as_bytes()).then_some(Self(()))
    }
}
