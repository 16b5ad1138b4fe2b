//! The operations of a seller. The audit log records who made each change.

mod catalog;
mod history;
mod keys;
#[cfg(feature = "pages")]
mod mail;
mod person;
mod preview;
mod records;

use std::sync::Arc;

use chrono::{DateTime, Utc};

pub(crate) use self::history::KeyHistory;
pub use self::keys::Expiry;
pub use self::person::{KnownKey, Person};
pub use self::preview::PreviewError;
use super::{Delivery, Error};
use crate::HostRef;
use crate::key::{Actor, Change, Key, KeyId};
use crate::ledger::plan::ReferenceId;
use crate::ledger::{Amount, Deal, Edit, MessageKind, ReferenceKind};
use crate::observer::Event;
use crate::order::{OrderId, OrderRef};
use crate::post::{NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::{KeyQuery, Page, PostQuery, StoreError, Subscribed, Use, UseId};

/// The seller's desk: the operations of a seller. The audit log records the person at the desk with each change.
/// [`Delivery::desk`] opens the desk.
///
/// Every change is committed together with its entry in the audit log.
#[derive(Debug, Clone, Copy)]
pub struct Desk<'d> {
    pub(super) delivery: &'d Delivery,
    pub(super) actor: &'d Actor,
}

/// A function that makes the event about a changed key, for observers.
type MakeEvent = fn(Key) -> Event;

impl Desk<'_> {
    /// Returns the actor and the time of a change that is made now, for its entry in the audit log.
    pub(super) fn edit(&self) -> Edit {
        Edit::new(self.actor.clone(), self.delivery.inner.clock.now())
    }
}

impl Delivery {
    /// Opens the seller's desk. The audit log shows `actor` as the person who makes the changes.
    #[must_use]
    pub fn desk<'d>(&'d self, actor: &'d Actor) -> Desk<'d> {
        Desk { delivery: self, actor }
    }

    /// Adds a product, as [`Actor::admin`].
    ///
    /// # Errors
    ///
    /// As for [`Desk::add_product`].
    pub async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        self.desk(&Actor::admin()).add_product(product).await
    }

    /// Replaces all fields of a product, as [`Actor::admin`].
    ///
    /// # Errors
    ///
    /// As for [`Desk::update_product`].
    pub async fn update_product(&self, id: ProductId, product: NewProduct) -> Result<Option<Arc<Product>>, StoreError> {
        self.desk(&Actor::admin()).update_product(id, product).await
    }

    /// Returns the product with this number, archived or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    pub async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        self.inner.catalog.product(id).await
    }

    /// Returns the product that has this [name](HostRef) in the host application, or `None` if no product has it. Each
    /// call is a query. A host application that needs the product with each request should remember the product's
    /// [number](crate::product::ProductId) instead.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the host application manages products itself; another [`StoreError`] if the store
    /// cannot be read.
    pub async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        self.inner.editor.as_ref().ok_or(StoreError::Unsupported)?.product_called(host_ref).await
    }

    /// Returns all products that are not archived, ordered by number.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the catalog cannot be read.
    pub async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        self.inner.catalog.products().await
    }

    /// Returns the archived products, ordered by number.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the host application manages products itself; another [`StoreError`] if the store
    /// cannot be read.
    pub async fn archived_products(&self) -> Result<Vec<Listing>, StoreError> {
        self.inner.editor.as_ref().ok_or(StoreError::Unsupported)?.archived_products().await
    }

    /// Adds a post, as [`Actor::admin`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the post may not have been added.
    pub async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        self.desk(&Actor::admin()).add_post(post).await
    }

    /// Returns posts that match `query`, newest first. Returns an empty list if the service has no store for posts.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the posts cannot be read.
    pub async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        match &self.inner.posts {
            Some(posts) => posts.posts(query).await,
            None => Ok(Arc::default()),
        }
    }

    /// Revokes a key, as [`Actor::admin`]. As soon as this returns, the key is treated as unknown.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], or [`Error::Store`].
    pub async fn revoke(&self, key: KeyId) -> Result<Key, Error> {
        self.desk(&Actor::admin()).revoke(key, None).await
    }

    /// Revokes a key, restores it, or changes its terms or address, in one commit with the audit entry. Observers are
    /// notified even if the change leaves the key as it was. Webhooks are sent only if the key has changed.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] or [`Error::Store`]. A change is refused if it adds uses to a key
    /// without a limit, or if it restores a key that was replaced by another key. A [`Change::Use`] is counted or
    /// refused as [`count_use`](Self::count_use) does.
    pub async fn change(&self, key: KeyId, change: Change) -> Result<Key, Error> {
        let (kind, event) = match Self::announced(&change) {
            Ok(announced) => announced,
            Err(product) => return self.count_use(key, product).await,
        };
        let webhooks = self.webhooks(kind)?;
        let inner = self.inner.clone();
        let work = async move {
            let key = inner.ledger.change(key, change, webhooks).await?.ok_or(Error::UnknownKey)??;
            inner.wake.notify_one();
            inner.observers.tell(|| event(key.clone()));
            Ok(key)
        };
        self.inner.run_to_end(work).await
    }

    /// Returns how a change is announced: the kind of webhook, and the event for observers. A use of a key is announced
    /// in another way. For a use, this returns `Err` with the product that the key is used for.
    pub(super) fn announced(change: &Change) -> Result<(MessageKind, MakeEvent), ProductId> {
        match change {
            Change::Use { product, .. } => Err(*product),
            Change::Revoke { .. } => Ok((MessageKind::KeyRevoked, |key| Event::Revoked { key })),
            Change::Restore { .. } => Ok((MessageKind::KeyRestored, |key| Event::Restored { key })),
            Change::SetTerms { .. } => Ok((MessageKind::KeyChanged, |key| Event::TermsChanged { key })),
            Change::SetEmail { .. } => Ok((MessageKind::KeyChanged, |key| Event::EmailChanged { key })),
        }
    }

    /// Returns keys that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn keys(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        self.inner.ledger.search(query).await
    }

    /// Returns the key with this id, revoked or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn key(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.inner.ledger.find(id).await
    }

    /// Returns the subscription that renews a key; `None` if no subscription renews the key, or if the store keeps no
    /// platform events.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn subscription_of(&self, key: &Key) -> Result<Option<Subscribed>, StoreError> {
        Subscribed::of(self.inner.ledger.as_ref(), key).await
    }

    /// Returns what was paid for an order or charge, according to the platform. Refunds are not subtracted. Returns
    /// `None` if the amount is not known.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn paid_for(&self, order: &OrderRef) -> Result<Option<Amount>, StoreError> {
        let Some(inbox) = self.inner.ledger.office() else { return Ok(None) };
        let deal = inbox.deal(&order.source, ReferenceKind::Order, &order.id).await?;
        Ok(deal.and_then(|deal| deal.total(order.id.as_str())))
    }

    /// Returns what was paid for the order of a key, as [`paid_for`](Self::paid_for) does.
    pub(crate) async fn total_of(&self, key: &Key) -> Result<Option<Amount>, StoreError> {
        match &key.granted().order {
            Some(order) => self.paid_for(order).await,
            None => Ok(None),
        }
    }

    /// Returns the time of the service's clock.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.inner.clock.now()
    }

    /// Returns the keys of the sales with this reference, at any platform. The reference names a payment, an invoice, a
    /// subscription or an order. Returns an empty list if the store keeps no platform events.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn keys_of_sale(&self, reference: &OrderId) -> Result<Vec<Key>, StoreError> {
        let Some(inbox) = self.inner.ledger.office() else { return Ok(Vec::new()) };
        let mut keys = Vec::new();
        for source in self.inner.platforms.names() {
            for kind in ReferenceKind::ALL {
                let deal = inbox.deal(source, *kind, reference).await?;
                for id in deal.iter().flat_map(Deal::keys) {
                    keys.extend(self.key(id).await?.filter(|key| !keys.contains(key)));
                }
            }
        }
        Ok(keys)
    }

    /// Returns the platform's references to the sale of a key: its order, payments, invoices and subscription, each
    /// with its kind. Leaves out the reference by which the key was issued.
    pub(crate) async fn references_of(&self, key: &Key) -> Result<Vec<(ReferenceKind, String)>, StoreError> {
        let sale = key.granted().order.as_ref().and_then(ReferenceId::of_sale);
        let (Some(sale), Some(inbox)) = (sale, self.inner.ledger.office()) else { return Ok(Vec::new()) };
        let deal = inbox.deal(&sale.source, sale.kind, &sale.name).await?;
        let all = deal.iter().flat_map(Deal::references);
        Ok(all.filter(|(_, name)| *name != sale.name.as_str()).map(|(kind, name)| (kind, name.to_owned())).collect())
    }

    /// Returns when a key was used, newest first. `before` is the [`next`](Page::next) of the previous page.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn history(
        &self,
        key: KeyId,
        before: Option<UseId>,
        limit: usize,
    ) -> Result<Page<Use, UseId>, StoreError> {
        self.inner.ledger.history(key, before, limit).await
    }
}
