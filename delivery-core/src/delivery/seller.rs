//! What a seller does: products, posts, and looking after keys and letters.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Delivery, Error};
use crate::key::{Change, Key, KeyId};
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product};
use crate::store::{KeyQuery, LetterId, Page, ParkedLetter, PostQuery, StoreError, Use, UseId};

impl Delivery {
    /// Adds a product.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    pub async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.inner.catalog.add_product(product).await
    }

    /// All products, by number.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot tell.
    pub async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        self.inner.catalog.products().await
    }

    /// Adds a post.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    pub async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.inner.catalog.add_post(post).await
    }

    /// Posts that fit `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot tell.
    pub async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        self.inner.catalog.posts(query).await
    }

    /// Revokes a key for good: from the answer on it is as good as unknown.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], or [`Error::Store`].
    pub async fn revoke(&self, key: KeyId) -> Result<Key, Error> {
        let change = Change::Revoke { at: self.inner.clock.now() };
        let changed = self.inner.ledger.change(key, change).await?.ok_or(Error::UnknownKey)?;
        // Revoking is never refused.
        changed.map_err(|_| Error::UnknownKey)
    }

    /// Keys that fit `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    pub async fn keys(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        self.inner.ledger.search(query).await
    }

    /// When a key was used, newest first; `before` continues a page.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    pub async fn history(
        &self,
        key: KeyId,
        before: Option<UseId>,
        limit: usize,
    ) -> Result<Page<Use, UseId>, StoreError> {
        self.inner.ledger.history(key, before, limit).await
    }

    /// Forgets when keys were used before `before`, and how often that was; counts stay as they are.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may be forgotten.
    pub async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.inner.ledger.prune_history(before).await
    }

    /// Letters that were given up, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    pub async fn parked_letters(&self, limit: usize) -> Result<Vec<ParkedLetter>, StoreError> {
        self.inner.ledger.parked_letters(limit).await
    }

    /// Sends all letters that failed again, parked or waiting for their next attempt; how many there were.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some may still be parked.
    pub async fn resend_letters(&self) -> Result<u64, StoreError> {
        let count = self.inner.ledger.unpark_letters(None, self.inner.clock.now()).await?;
        self.inner.wake.notify_one();
        Ok(count)
    }

    /// Sends a parked letter again, as if it were new; whether there was such a letter.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may still be parked.
    pub async fn resend_letter(&self, letter: LetterId) -> Result<bool, StoreError> {
        let found = self.inner.ledger.unpark_letter(letter, self.inner.clock.now()).await?;
        self.inner.wake.notify_one();
        Ok(found)
    }
}
