//! Proofs that a caller was authenticated. Their fields are private, and only the [pipeline](super::pipeline) and
//! [`Grant`](super::Grant) construct them, so a handler that takes a proof cannot run without the check.

use super::Call;
use crate::delivery::Delivery;
use crate::key::{Actor, KeyId};
use crate::seller::Head;
use crate::{
    order::Source,
    platform::{Notification, Received, Request, Unauthentic},
};

/// The id of a key whose text verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerifiedKey(KeyId);

/// The commerce platform sent the webhook secret.
#[derive(Debug)]
pub(super) struct Platform(());

/// The seller, by name.
#[derive(Debug)]
pub(super) struct Seller(Actor);

/// What a commerce platform has signed.
#[derive(Debug)]
pub(super) struct Event(Source, Notification);

/// A request of a platform, judged.
pub(super) enum Judged {
    Event(Event),
    /// A test of the connection, which nobody has signed.
    Ping,
    Unauthentic,
}

impl Event {
    pub(super) fn judge(delivery: &Delivery, name: &str, call: &Call, body: &[u8]) -> Judged {
        let Some(platform) = delivery.inner.platforms.named(name) else { return Judged::Unauthentic };
        let query = call.query.as_deref().unwrap_or_default();
        let request = Request { headers: &call.headers, query, body, now: delivery.inner.clock.now() };
        match platform.read(&request) {
            Ok(Received::Notification(notification)) => Judged::Event(Self(platform.name(), notification)),
            Ok(Received::Ping) => Judged::Ping,
            Err(Unauthentic) => {
                delivery.inner.platforms.refuse(name, request.now);
                Judged::Unauthentic
            }
        }
    }

    pub(super) fn into_parts(self) -> (Source, Notification) {
        (self.0, self.1)
    }
}

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
        let seller = delivery.inner.seller.as_ref()?.authenticate(&head).await.map(Self);
        // Whoever presents nothing does not try to sign in.
        if seller.is_none() && head.bearer().is_some() {
            delivery.inner.note_wrong_sign_in();
        }
        seller
    }

    /// Who it is, for the audit log.
    pub(super) fn actor(&self) -> &Actor {
        &self.0
    }
}
