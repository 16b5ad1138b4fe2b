//! What a buyer does with a key.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Delivery, Error};
use crate::key::{Denied, Key, KeyId, Refusal};
use crate::ledger::{Fetch, Fetched, RequestId};
use crate::product::{Product, ProductId};

/// A product, and the key that gives access to it.
pub(crate) struct Opened {
    pub(crate) product: Arc<Product>,
    #[cfg_attr(
        not(any(feature = "files", feature = "pages")),
        expect(dead_code, reason = "only links are made of it")
    )]
    pub(crate) key: Key,
    /// When the use was counted. If no use was counted, the time of the lookup.
    #[cfg_attr(
        not(any(feature = "files", feature = "pages")),
        expect(dead_code, reason = "only links are made of it")
    )]
    pub(crate) at: DateTime<Utc>,
}

impl Delivery {
    /// Returns the id of a key that the service's keyring signed; `None` for any other text. Computes one MAC, without
    /// I/O. For a text that may belong to an imported key, call [`identify`](Self::identify).
    #[must_use]
    pub fn verify(&self, key: &str) -> Option<KeyId> {
        self.inner.keyring.verify(key)
    }

    /// Returns the key with this text if it could be used now. Counts no use.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, exhausted,
    /// [rules](crate::key::Rule) of the host application), or [`Error::Store`].
    pub async fn validate(&self, key: &str) -> Result<Key, Error> {
        self.check(self.identify(key).await?.ok_or(Error::UnknownKey)?).await
    }

    /// Does the same as [`validate`](Self::validate) for a key whose text was [verified](Self::verify).
    ///
    /// # Errors
    ///
    /// As for [`validate`](Self::validate).
    pub async fn check(&self, key: KeyId) -> Result<Key, Error> {
        let checked = self.find(key).await.and_then(|key| self.allowed(key.product(), key, self.inner.clock.now()));
        checked.inspect_err(|error| self.inner.note_refusal(Some(key), error))
    }

    /// Returns a verified key if it could be used for `product` now. Counts no use.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, wrong product, exhausted,
    /// [rules](crate::key::Rule) of the host application), or [`Error::Store`].
    pub async fn check_for(&self, key: KeyId, product: ProductId) -> Result<Key, Error> {
        let checked = self.find(key).await.and_then(|key| self.allowed(product, key, self.inner.clock.now()));
        checked.inspect_err(|error| self.inner.note_refusal(Some(key), error))
    }

    /// Counts one use of a verified key for `product`, and returns the product. The use is durable before this returns;
    /// a refusal counts no use.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, wrong product, exhausted,
    /// [rules](crate::key::Rule) of the host application), or [`Error::Store`]. If there is no such product, the error
    /// is [`Error::UnknownProduct`], unless the key is unknown, revoked or expired. Then the error is about the key.
    pub async fn fetch(&self, key: KeyId, product: ProductId) -> Result<Arc<Product>, Error> {
        self.open(key, product, None).await.map(|opened| opened.product)
    }

    /// Does the same as [`fetch`](Self::fetch), for a client that may repeat its request because the answer was lost.
    /// Within 24 hours of the first call, ten further calls with the same `request` and the same `key` return the
    /// product without counting a use. After these ten, each call counts a use. If the store does not keep
    /// [requests](crate::store::Requests), every call counts a use.
    ///
    /// A repetition succeeds even if the key has expired or was used up since the first request, because the use was
    /// counted while the key was valid. A repetition is refused if the key was revoked since, because the money may
    /// have been refunded.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), and [`Error::Refused`] if the first call with this `request` was for another
    /// product.
    pub async fn fetch_once(&self, key: KeyId, product: ProductId, request: RequestId) -> Result<Arc<Product>, Error> {
        self.open(key, product, Some(request)).await.map(|opened| opened.product)
    }

    /// Does what [`fetch`](Self::fetch) does, or [`fetch_once`](Self::fetch_once) if `request` is given. Also returns
    /// the key, and when the use was counted.
    #[cfg_attr(feature = "spans", tracing::instrument(name = "fetch", skip_all, fields(%key, %product)))]
    pub(crate) async fn open(
        &self,
        key: KeyId,
        product: ProductId,
        request: Option<RequestId>,
    ) -> Result<Opened, Error> {
        // Look up the product first: a use must not be counted for a product that cannot be served.
        let Some(found) = self.inner.catalog.product(product).await? else {
            let refused = self.without_product(key, product).await;
            self.inner.note_refusal(Some(key), &refused);
            return Err(refused);
        };
        let at = self.inner.clock.now();
        let Some(request) = request.filter(|_| self.inner.ledger.office().is_some()) else {
            let key = self.count_use(key, product).await?;
            return Ok(Opened { product: found, key, at });
        };
        let fetch = Fetch { product, at, request, rules: self.inner.rules.clone() };
        let inner = self.inner.clone();
        let work = async move {
            let fetched = inner.ledger.fetch(key, fetch).await?.ok_or(Error::UnknownKey);
            let fetched = fetched.and_then(|fetched| Ok(fetched?));
            match &fetched {
                Ok(Fetched { is_repeat: true, .. }) => {}
                Ok(Fetched { key: used, .. }) => inner.note_use(key, &Ok(used.clone())),
                Err(error) => inner.note_refusal(Some(key), error),
            }
            fetched
        };
        let Fetched { key, counted_at, .. } = self.inner.run_to_end(work).await?;
        Ok(Opened { product: found, key, at: counted_at })
    }

    /// Returns what [`fetch`](Self::fetch) would return, but counts no use. This is meant for HEAD requests.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn peek(&self, key: KeyId, product: ProductId) -> Result<Arc<Product>, Error> {
        self.look(key, product).await.map(|opened| opened.product)
    }

    /// Does what [`peek`](Self::peek) does. Also returns the key.
    pub(crate) async fn look(&self, key: KeyId, product: ProductId) -> Result<Opened, Error> {
        let Some(found) = self.inner.catalog.product(product).await? else {
            return Err(self.without_product(key, product).await);
        };
        let (key, at) = (self.find(key).await?, self.inner.clock.now());
        Ok(Opened { product: found, key: self.allowed(product, key, at)?, at })
    }

    /// Returns the key if it could be used for `product` at the time `at`.
    fn allowed(&self, product: ProductId, key: Key, at: DateTime<Utc>) -> Result<Key, Error> {
        match key.allows(product, at, &self.inner.rules) {
            Ok(()) => Ok(key),
            Err(refusal) => Err(Error::refused(refusal, key)),
        }
    }

    /// Counts one use of a verified key for `product`, for a host application that serves the product itself.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] (checked in this order: expired, wrong product, exhausted,
    /// [rules](crate::key::Rule) of the host application), or [`Error::Store`].
    pub async fn count_use(&self, key: KeyId, product: ProductId) -> Result<Key, Error> {
        let change = self.inner.use_of(product);
        let inner = self.inner.clone();
        self.inner
            .run_to_end(async move {
                let used = inner.ledger.change(key, change, Vec::new()).await?.ok_or(Error::UnknownKey);
                let used = used.and_then(|used| Ok(used?));
                inner.note_use(key, &used);
                used
            })
            .await
    }

    /// Returns why a rule of the host application would refuse a use of the key now. Returns `None` if no rule would,
    /// or if the use would be refused before the rules are checked, for example because the key has expired.
    pub(crate) fn denied(&self, key: &Key) -> Option<Denied> {
        match key.allows(key.product(), self.inner.clock.now(), &self.inner.rules) {
            Err(Refusal::Denied(denied)) => Some(denied),
            _ => None,
        }
    }

    async fn find(&self, id: KeyId) -> Result<Key, Error> {
        self.inner.ledger.find(id).await?.ok_or(Error::UnknownKey)
    }

    /// Returns the error for a request with an unknown product. If the key is unknown, revoked or expired, the error is
    /// about the key and not about the product.
    async fn without_product(&self, id: KeyId, product: ProductId) -> Error {
        let key = match self.find(id).await {
            Ok(key) => key,
            Err(error) => return error,
        };
        match key.apply(&self.inner.use_of(product)) {
            Err(refusal @ (Refusal::Revoked { .. } | Refusal::Expired { .. })) => Error::refused(refusal, key),
            _ => Error::UnknownProduct,
        }
    }
}
