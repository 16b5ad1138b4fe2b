//! What a seller does: products, posts, and looking after keys and e-mails.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Delivery, Error};
use crate::HostRef;
use crate::key::{Actor, Change, Key, KeyId};
use crate::observer::Event;
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product};
use crate::store::{FailedMessage, KeyQuery, MessageNumber, Page, PostQuery, StoreError, Use, UseId};

impl Delivery {
    /// Adds a product.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if products are managed elsewhere; another [`StoreError`] if nothing was added.
    pub async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.inner.editor.as_ref().ok_or(StoreError::Unsupported)?.add_product(product).await
    }

    /// The product that the host [calls](HostRef) so.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if products are managed elsewhere; another [`StoreError`] if the store cannot tell.
    pub async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        self.inner.editor.as_ref().ok_or(StoreError::Unsupported)?.product_called(host_ref).await
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
        self.inner.posts.as_ref().ok_or(StoreError::Unsupported)?.add_post(post).await
    }

    /// Posts that fit `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot tell.
    pub async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        match &self.inner.posts {
            Some(posts) => posts.posts(query).await,
            None => Ok(Arc::default()),
        }
    }

    /// Revokes a key. As soon as this returns, the key is treated as unknown.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], or [`Error::Store`].
    pub async fn revoke(&self, key: KeyId) -> Result<Key, Error> {
        let change = Change::Revoke { at: self.inner.clock.now(), reason: None, by: Actor::admin() };
        let inner = self.inner.clone();
        self.inner
            .told(async move {
                let changed = inner.ledger.change(key, change).await?.ok_or(Error::UnknownKey)?;
                // Revoking is never refused.
                let key = changed.map_err(|_| Error::UnknownKey)?;
                inner.observers.tell(|| Event::Revoked { key: key.clone() });
                Ok(key)
            })
            .await
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

    /// Deletes use records older than `before`, and returns how many; the counts of keys are unaffected.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some records may remain.
    pub async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.inner.ledger.prune_history(before).await
    }

    /// E-mails that were given up, in the order in which they were, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    pub async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        self.inner.ledger.failed_messages(limit).await
    }

    /// Retries all e-mails that failed for good, and those that wait for their next attempt, unless a mail server may
    /// have taken them. Returns how many there were.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some may not be retried.
    pub async fn retry_messages(&self) -> Result<u64, StoreError> {
        let count = self.inner.ledger.retry_messages(None, self.inner.clock.now()).await?;
        self.inner.wake.notify_one();
        Ok(count)
    }

    /// Retries an e-mail that failed for good, with its attempts counted anew. Returns whether there was such an
    /// e-mail.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it may not be retried.
    pub async fn retry_message(&self, message: MessageNumber) -> Result<bool, StoreError> {
        let found = self.inner.ledger.retry_message(message, self.inner.clock.now()).await?;
        self.inner.wake.notify_one();
        Ok(found)
    }
}
