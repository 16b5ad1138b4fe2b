//! A key as the credential for the host application's own routes.

use ::http::Method;

use super::error::ApiError;
use super::limits::forged;
use super::proof::VerifiedKey;
use super::{Call, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::key::Key;
use crate::product::ProductId;

/// A key that was valid when the request came. Each binding wraps it in a guard of its framework, which refuses
/// requests without a valid key.
///
/// Obtaining a grant does not count a use: the route decides whether to [count one](Self::count_use).
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
    /// Guessing keys is therefore no easier on the host application's own routes.
    ///
    /// # Errors
    ///
    /// The API's own reply: 400, 401, 403, 429, 500 or 503.
    pub async fn of(delivery: &Delivery, call: &Call) -> Result<Self, Box<Reply>> {
        Requirement::default().check(delivery, call).await
    }

    /// Checks the key of `call` like [`of`](Self::of), but returns `None` if there is no key. A wrong key is refused.
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

    /// Returns the key as it was when it was checked.
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
    /// [`Error`] if the key is for another product, has expired, was used up or revoked meanwhile, or the store
    /// failed. No use was counted, except possibly with [`StoreError::Unknown`](crate::store::StoreError::Unknown). In
    /// a handler, `?` converts the error into the API's own reply.
    pub async fn count_use(&self, product: ProductId) -> Result<Key, Error> {
        self.delivery.count_use(self.key.id(), product).await
    }
}

/// The requirements that a route of the host application has for a key. The key must be valid. Optionally it must be
/// for one product, and each request counts as a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requirement {
    product: Option<ProductId>,
    counts: bool,
}

impl Requirement {
    /// Requires a key for `product`.
    #[must_use]
    pub fn product(self, product: ProductId) -> Self {
        Self { product: Some(product), ..self }
    }

    /// Counts each request as a use of the key, durably, before the route handles it. HEAD requests are not counted.
    #[must_use]
    pub fn counting(self) -> Self {
        Self { counts: true, ..self }
    }

    /// Checks the key of `call` as [`Grant::of`] does, and counts a use if [`counting`](Self::counting) was set.
    ///
    /// # Errors
    ///
    /// The API's own reply: 400, 401, 403, 429, 500 or 503. No use was counted, except possibly with 503.
    pub async fn check(&self, delivery: &Delivery, call: &Call) -> Result<Grant, Box<Reply>> {
        let refused = |error: ApiError| Box::new(Reply::from(error).report(call.request_id()).confidential());
        let text = query::key(call).map_err(|fault| refused(fault.into()))?;
        let Some(verified) = VerifiedKey::of(delivery, &text) else {
            let admitted = forged(delivery, call).await.map_err(refused)?;
            return Err(refused(admitted.apply(ApiError::from(Error::UnknownKey).into()).into()));
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
