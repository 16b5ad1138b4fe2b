//! A key as the credential for a route of the host's own.

use super::pipeline::forged;
use super::proof::VerifiedKey;
use super::{Call, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::key::Key;
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
    /// Checks the key of `call` as `/api/validate` does. The key may be in `?key=`, `Authorization: Bearer` or
    /// `X-API-Key`.
    ///
    /// A key that does not verify counts against the `failures` quota of the client's address, as on `/api/product`.
    /// Guessing keys is therefore no easier on a host's own routes.
    ///
    /// # Errors
    ///
    /// The API's own answer: 400, 401, 403, 429 or 503.
    pub async fn of(delivery: &Delivery, call: &Call) -> Result<Self, Box<Reply>> {
        let refused = |reply: Reply| Box::new(reply.report(call.request_id()).confidential());
        let text = query::key(call).map_err(|fault| refused(fault.into()))?;
        let Some(verified) = VerifiedKey::of(delivery, &text) else {
            return Err(refused(forged(delivery, call).await));
        };
        let key = delivery.check(verified.id()).await.map_err(|error| refused(error.into()))?;
        Ok(Self { delivery: delivery.clone(), key })
    }

    /// The key as it stood when the request came.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Counts one use of the key for `product`, durably, and returns the key after that use.
    ///
    /// Frameworks also run a GET route for HEAD requests. A route that should not count a use for HEAD must check the
    /// method.
    ///
    /// # Errors
    ///
    /// [`Error`] if the key is for another product, was used up or revoked meanwhile, or the store failed. No use was
    /// counted, except possibly with [`StoreError::Unknown`](crate::store::StoreError::Unknown). In a handler, `?`
    /// converts the error into the API's own answer.
    pub async fn count_use(&self, product: ProductId) -> Result<Key, Error> {
        self.delivery.count_use(self.key.id(), product).await
    }
}
