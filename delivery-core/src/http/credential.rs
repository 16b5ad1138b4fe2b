//! Protection of the host application's own routes: a caller must send a valid key.

use std::time::Duration;

use ::http::Method;

use super::error::ApiError;
use super::limits::{admit, forged};
use super::proof::VerifiedKey;
use super::{Call, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::key::Key;
use crate::limit::{HostPolicy, Identity, Policy, Quota};
use crate::product::ProductId;

/// Proof that a request came with a valid key. The crates `delivery-axum` and `delivery-rocket` wrap this type in a
/// guard of their framework, which refuses requests without a valid key.
///
/// When the request arrived, the key could be used: it was known, not revoked, not expired, not used up, and allowed by
/// the [rules](crate::key::Rule) of the host application. A revoked key gets the same reply as an unknown key.
/// [`of`](Self::of) counts no use. The route decides whether to [count one](Self::count_use).
#[derive(Debug, Clone)]
pub struct Grant {
    delivery: Delivery,
    key: Key,
    /// Whether the request is a HEAD request, which counts no use.
    is_head: bool,
}

impl Grant {
    /// Checks the key of `call` as `/api/validate` does. The key may be in `?key=`, `Authorization: Bearer` or
    /// `X-API-Key`.
    ///
    /// If no key has this text, the call counts against the `failures` quota of the client's address, as
    /// on `/api/product`. So guessing keys is no easier on the host application's own routes than on the API.
    ///
    /// # Errors
    ///
    /// The API's own reply: 400, 401, 403, 429, 500 or 503.
    pub async fn of(delivery: &Delivery, call: &Call) -> Result<Self, Box<Reply>> {
        Requirement::default().check(delivery, call).await
    }

    /// Checks the key of `call` like [`of`](Self::of), but returns `None` if the call has no key. A call with a key
    /// that cannot be used is refused.
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
    /// A HEAD request counts no use, because frameworks run the route of GET for it. The key is then only checked for
    /// `product`, and returned as it is.
    ///
    /// # Errors
    ///
    /// [`Error`] if the store failed, or if the use is refused. A use is refused if the key is for another product, or
    /// if the key has meanwhile expired, been used up or been revoked. A rule of the host application can also refuse
    /// it. After [`StoreError::Unknown`](crate::store::StoreError::Unknown), a use may have been counted. After all
    /// other errors, no use was counted. In a handler, `?` converts the error into the API's own reply.
    pub async fn count_use(&self, product: ProductId) -> Result<Key, Error> {
        if self.is_head {
            self.delivery.check_for(self.key.id(), product).await
        } else {
            self.delivery.count_use(self.key.id(), product).await
        }
    }
}

impl Grant {
    /// Counts one use of the key for `product`, durably, and returns a [ticket](Delivery::ticket_lasting) for the host
    /// application's resource `name`. The ticket is valid for the time `lasts`, but not longer than the key. Until the
    /// ticket expires, its holder can fetch the resource any number of times, whole or in parts. The route that serves
    /// the resource checks the ticket with [`Delivery::check_ticket`].
    ///
    /// If the guard of the route already [counts](Requirement::counting) each request, this counts a second use. A HEAD
    /// request counts no use, and gets a ticket that has already expired.
    ///
    /// # Errors
    ///
    /// As for [`count_use`](Self::count_use).
    pub async fn open(&self, product: ProductId, name: &str, lasts: Duration) -> Result<String, Error> {
        let key = self.count_use(product).await?;
        Ok(self.delivery.ticket_lasting(&key, name, if self.is_head { Duration::ZERO } else { lasts }))
    }

    /// Counts the request against the host application's own rate limit `limit`, separately for each key. Call this
    /// before [`count_use`](Self::count_use) or [`open`](Self::open), so that a refused request counts no use.
    ///
    /// - HEAD requests count too.
    /// - If the same `limit` is used with different quotas, each quota has its own count.
    /// - The limiter of the service keeps the counts. Servers that share a limiter share the counts. A `MemoryLimiter`
    ///   loses the counts when the server stops.
    /// - The reply to an admitted request gets no `RateLimit` headers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use delivery_core::http::{Grant, Reply};
    /// use delivery_core::limit::{HostPolicy, Quota};
    ///
    /// const DOWNLOADS: HostPolicy = HostPolicy::new("downloads");
    ///
    /// async fn five_an_hour(grant: &Grant) -> Result<(), Box<Reply>> {
    ///     let Ok(quota) = Quota::new(5, Duration::from_hours(1)) else { return Err(Box::new(Reply::internal())) };
    ///     grant.limit(DOWNLOADS, quota).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The API's own reply: 429 if the key has exceeded the limit, or 503 if the limiter fails. The 429 has
    /// `Retry-After` and the `RateLimit` headers, which name the limit.
    pub async fn limit(&self, limit: HostPolicy, quota: Quota) -> Result<(), Box<Reply>> {
        let admitted = admit(&self.delivery, Policy::Host(limit, quota), Identity::Key(self.key.id().as_u128())).await;
        admitted.map(drop).map_err(|error| Box::new(Reply::of_host(error, None)))
    }
}

/// What a route of the host application requires of the key in a request. The key must always be valid. Two options can
/// be set: the key must be for a certain product, and each request counts as a use of the key.
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
    /// The API's own reply: 400, 401, 403, 429, 500 or 503. After a 503, a use may have been counted. After any other
    /// of these replies, no use was counted.
    pub async fn check(&self, delivery: &Delivery, call: &Call) -> Result<Grant, Box<Reply>> {
        let refused = |error: ApiError| Box::new(Reply::of_host(error, call.request_id()));
        let text = query::key(call).map_err(|fault| refused(fault.into()))?;
        let verified = VerifiedKey::of(delivery, &text).await.map_err(|error| refused(error.into()))?;
        let Some(verified) = verified else {
            let admitted = forged(delivery, call).await.map_err(refused)?;
            return Err(refused(admitted.apply(ApiError::from(Error::UnknownKey).into()).into()));
        };
        let is_head = call.method == Method::HEAD;
        let counts = self.counts && !is_head;
        let checked = match self.product {
            Some(product) if counts => delivery.count_use(verified.id(), product).await,
            Some(product) => delivery.check_for(verified.id(), product).await,
            None => match delivery.check(verified.id()).await {
                Ok(key) if counts => delivery.count_use(key.id(), key.product()).await,
                checked => checked,
            },
        };
        let key = checked.map_err(|error| refused(error.into()))?;
        Ok(Grant { delivery: delivery.clone(), key, is_head })
    }
}
