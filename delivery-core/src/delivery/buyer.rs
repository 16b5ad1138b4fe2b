//! What a buyer does with a key.

use std::sync::Arc;

use super::{Delivery, Error};
use crate::key::{Change, Key, KeyId};
use crate::ledger::{Fetch, Fetched, Refused, RequestId};
use crate::product::{Product, ProductId};

impl Delivery {
    /// Returns the id of a key that this keyring signed; `None` for any other text. Computes one MAC, without I/O.
    #[must_use]
    pub fn verify(&self, key: &str) -> Option<KeyId> {
        self.inner.keyring.verify(key).map(|verified| verified.id)
    }

    /// Returns a key if it could be used now. Counts no use.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, exhausted), or [`Error::Store`].
    pub async fn validate(&self, key: &str) -> Result<Key, Error> {
        self.check(self.verify(key).ok_or(Error::UnknownKey)?).await
    }

    /// Does the same as [`validate`](Self::validate) for a key whose text was [verified](Self::verify).
    ///
    /// # Errors
    ///
    /// As for [`validate`](Self::validate).
    pub async fn check(&self, key: KeyId) -> Result<Key, Error> {
        let checked = self.find(key).await.and_then(|key| match key.check(self.inner.clock.now()) {
            Ok(()) => Ok(key),
            Err(refusal) => Err(Error::refused(refusal, key)),
        });
        checked.inspect_err(|error| self.inner.note_refusal(Some(key), error))
    }

    /// Returns a verified key if it could be used for `product` now. Counts no use.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, wrong product, exhausted), or
    /// [`Error::Store`].
    pub async fn check_for(&self, key: KeyId, product: ProductId) -> Result<Key, Error> {
        let change = Change::Use { product, at: self.inner.clock.now() };
        let checked = self.find(key).await.and_then(|key| match key.apply(&change) {
            Ok(_) => Ok(key),
            Err(refusal) => Err(Error::refused(refusal, key)),
        });
        checked.inspect_err(|error| self.inner.note_refusal(Some(key), error))
    }

    /// Counts one use of a verified key for `product`, and returns the product. The use is durable before this returns;
    /// a refusal counts no use.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, wrong product, exhausted), or
    /// [`Error::Store`]. If there is no such product, and the key is valid and has not expired, the error is
    /// [`Error::UnknownProduct`]. This holds even if the key is for another product, or is exhausted.
    #[cfg_attr(feature = "spans", tracing::instrument(name = "fetch", skip_all, fields(%key, %product)))]
    pub async fn fetch(&self, key: KeyId, product: ProductId) -> Result<Arc<Product>, Error> {
        // Look up the product first: no use must be counted for a product that cannot be served.
        let Some(found) = self.inner.catalog.product(product).await? else {
            let refused = self.without_product(key, product).await;
            self.inner.note_refusal(Some(key), &refused);
            return Err(refused);
        };
        self.count_use(key, product).await.map(|_| found)
    }

    /// Does the same as [`fetch`](Self::fetch), for a client that may repeat its request because the answer was lost.
    /// Within 24 hours, the next ten requests with the same identity and the same key return the product without
    /// counting a use. Each further repetition counts a use. If the store does not keep
    /// [requests](crate::store::Requests), every request counts a use.
    ///
    /// A repetition succeeds even if the key has expired or was used up since the first request, because the use was
    /// counted while the key was valid. A repetition is refused if the key was revoked since, because the money may
    /// have been refunded.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), and [`Error::Refused`] if the first request with this identity was for another
    /// product.
    #[cfg_attr(feature = "spans", tracing::instrument(name = "fetch", skip_all, fields(%key, %product)))]
    pub async fn fetch_once(&self, key: KeyId, product: ProductId, request: RequestId) -> Result<Arc<Product>, Error> {
        if self.inner.ledger.office().is_none() {
            return self.fetch(key, product).await;
        }
        let Some(found) = self.inner.catalog.product(product).await? else {
            let refused = self.without_product(key, product).await;
            self.inner.note_refusal(Some(key), &refused);
            return Err(refused);
        };
        let fetch = Fetch { product, at: self.inner.clock.now(), request };
        let inner = self.inner.clone();
        let work = async move {
            let fetched = match inner.ledger.fetch(key, fetch).await? {
                Some(Ok(Fetched { is_repeat: true, .. })) => return Ok(()),
                Some(Ok(Fetched { key, .. })) => Ok(key),
                Some(Err(Refused { refusal, key })) => Err(Error::refused(refusal, key)),
                None => Err(Error::UnknownKey),
            };
            inner.note_use(key, &fetched);
            fetched.map(drop)
        };
        self.inner.told(work).await.map(|()| found)
    }

    /// Returns what [`fetch`](Self::fetch) would return, but counts no use. This is meant for HEAD requests.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn peek(&self, key: KeyId, product: ProductId) -> Result<Arc<Product>, Error> {
        let Some(found) = self.inner.catalog.product(product).await? else {
            return Err(self.without_product(key, product).await);
        };
        let known = self.find(key).await?;
        match known.apply(&Change::Use { product, at: self.inner.clock.now() }) {
            Ok(_) => Ok(found),
            Err(refusal) => Err(Error::refused(refusal, known)),
        }
    }

    /// Counts one use of a verified key for `product`, for a host application that serves the product itself.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, wrong product, exhausted), or
    /// [`Error::Store`].
    pub async fn count_use(&self, key: KeyId, product: ProductId) -> Result<Key, Error> {
        let change = Change::Use { product, at: self.inner.clock.now() };
        let inner = self.inner.clone();
        self.inner
            .told(async move {
                let used = match inner.ledger.change(key, change, Vec::new()).await? {
                    Some(Ok(key)) => Ok(key),
                    Some(Err(Refused { refusal, key })) => Err(Error::refused(refusal, key)),
                    None => Err(Error::UnknownKey),
                };
                inner.note_use(key, &used);
                used
            })
            .await
    }

    async fn find(&self, id: KeyId) -> Result<Key, Error> {
        self.inner.ledger.find(id).await?.ok_or(Error::UnknownKey)
    }

    /// Returns the error for a request with an unknown product. If the key itself is unknown, revoked or expired, the
    /// error says that instead.
    async fn without_product(&self, id: KeyId, product: ProductId) -> Error {
        let key = match self.find(id).await {
            Ok(key) => key,
            Err(error) => return error,
        };
        match key.apply(&Change::Use { product, at: self.inner.clock.now() }) {
            Err(refusal @ (crate::key::Refusal::Revoked { .. } | crate::key::Refusal::Expired { .. })) => {
                Error::refused(refusal, key)
            }
            _ => Error::UnknownProduct,
        }
    }
}
