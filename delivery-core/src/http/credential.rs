//! A key as the ticket to a route of the host's own.

use super::limits::{admit, client};
use super::{Call, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::key::Key;
use crate::limit::Policy;
use crate::product::ProductId;

/// A key that is valid now. Each binding wraps it as a guard of its framework, which answers for a request without one.
///
/// Having it counts nothing: counting a use is the route's explicit choice.
#[derive(Debug, Clone)]
pub struct Grant {
    delivery: Delivery,
    key: Key,
}

impl Grant {
    /// The key of `call`, checked as `/api/validate` does it, wherever the key stands: `?key=`, `Authorization: Bearer` or
    /// `X-API-Key`.
    ///
    /// Keys that do not verify count against the `failures` quota of their address, as on `/api/product`, so that a
    /// host's own routes are no better place for guessing.
    ///
    /// # Errors
    ///
    /// The API's own answer: 400, 401, 403, 429 or 503.
    pub async fn of(delivery: &Delivery, call: &Call) -> Result<Self, Box<Reply>> {
        let refused = |reply: Reply| Box::new(reply.report(call.request_id()).confidential());
        let text = query::key(call).map_err(|fault| refused(fault.into()))?;
        if delivery.verify(&text).is_none() {
            return Err(match admit(delivery, Policy::Failures, client(delivery, call)).await {
                Ok(ticket) => refused(ticket.stamp(Error::UnknownKey.into())),
                Err(reply) => refused(*reply),
            });
        }
        let key = delivery.validate(&text).await.map_err(|error| refused(error.into()))?;
        Ok(Self { delivery: delivery.clone(), key })
    }

    /// The key as it stood when the request came.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Counts one use of the key for `product`, durably, and answers the key as it stands then.
    ///
    /// # Errors
    ///
    /// [`Error`] if the key is for another product or was used up or revoked meanwhile, or the store failed; nothing was
    /// counted then. In a handler, `?` makes the API's own answer of it.
    ///
    /// Frameworks run the route of a GET for HEAD too; a route that should count no use then looks at the method.
    pub async fn count_use(&self, product: ProductId) -> Result<Key, Error> {
        self.delivery.count_use(self.key.id(), product).await
    }
}
