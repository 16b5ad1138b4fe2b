//! A key as the credential for a route of the host's own.

use ::http::Method;

use super::limits::forged;
use super::proof::VerifiedKey;
use super::{Call, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
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
        Requirement::default().check(delivery, call).await
    }

    /// The same for a route that also answers calls without a key: `None` for a call that has a key in none of these
    /// places. A key that is wrong is refused all the same.
    ///
    /// # Errors
    ///
    /// As for [`of`](Self::of).
    pub async fn of_optional(delivery: &Delivery, call: &Call) -> Result<Option<Self>, Box<Reply>> {
        match query::key(call) {
            Err(fault) if fault.code() == ErrorCode::MissingParams => Ok(None),
            _ => Self::of(delivery, call).await.map(Some),
        }
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

/// What a route of the host's asks of a key: to be valid; and, if the host says so, to be for one product, and to be used
/// once by each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requirement {
    product: Option<ProductId>,
    counts: bool,
}

impl Requirement {
    /// Asks for a key for `product`.
    #[must_use]
    pub fn product(self, product: ProductId) -> Self {
        Self { product: Some(product), ..self }
    }

    /// Counts each request as a use of the key, durably, before the route answers it; HEAD, whose answer has no body, counts
    /// none.
    #[must_use]
    pub fn counting(self) -> Self {
        Self { counts: true, ..self }
    }

    /// Checks the key of `call`, as [`Grant::of`] does, and counts the use.
    ///
    /// # Errors
    ///
    /// The API's own answer: 400, 401, 403, 429 or 503. No use was counted, except possibly with 503.
    pub async fn check(&self, delivery: &Delivery, call: &Call) -> Result<Grant, Box<Reply>> {
        let refused = |reply: Reply| Box::new(reply.report(call.request_id()).confidential());
        let text = query::key(call).map_err(|fault| refused(fault.into()))?;
        let Some(verified) = VerifiedKey::of(delivery, &text) else {
            return Err(refused(forged(delivery, call).await));
        };
        let counts = self.counts && call.method != Method::HEAD;
        let checked = match self.product {
            Some(product) if counts => delivery.count_use(verified.id(), product).await,
            Some(product) => delivery.check_for(verified.id(), product).await,
            None => match delivery.check(verified.id()).await {
                Ok(key) if counts => delivery.count_use(key.id(), key.product()).await,
                checked => checked,
            },
        };
        let key = checked.map_err(|error| refused(error.into()))?;
        Ok(Grant { delivery: delivery.clone(), key })
    }
}
