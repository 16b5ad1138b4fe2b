//! Turns a paid order into a key and an e-mail.

use crate::email::Email;
use crate::key::{Key, KeyId, KeyText, NewKey};
use crate::ledger::{Issue, MessageKind, NewSale, Notice};
use crate::observer::Event;
use crate::order::{Order, OrderRef};
use crate::product::ProductId;
use crate::redact::redacted;
use crate::store::{KeyQuery, StoreError};
use crate::telemetry;
use crate::terms::OwnTerms;
use crate::throttle::log_seldom;

use super::{Delivery, Error};

/// An issued key, with its text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Issued {
    /// The key.
    pub key: Key,
    /// The text of the key, for the buyer.
    pub text: KeyText,
    /// Whether this call issued the key. `false` if an earlier call issued it for the same order and product.
    pub new: bool,
}

impl Delivery {
    /// Issues the key of a paid order and queues its e-mail, in one commit. Each product of an order gets one key and
    /// one e-mail, even if several calls report the order, one after the other or at the same time. Later calls for the
    /// same order and product return the first key, even if they name another address. Terms that the product does not
    /// set come from the default [terms](super::Builder::terms).
    ///
    /// # Errors
    ///
    /// [`Error::UnknownProduct`], or [`Error::Store`]. After an error nothing was issued, unless the outcome is
    /// [unknown](crate::store::StoreError::Unknown).
    #[cfg_attr(feature = "spans", tracing::instrument(name = "order", skip_all, fields(order = %redacted(order.reference.id.as_str()), product = %order.product)))]
    pub async fn order(&self, order: Order) -> Result<Issued, Error> {
        let Order { reference, product, email } = order;
        let sale = self.sale(product, email.clone(), OwnTerms::default(), Some(reference), true).await?;
        let issued = self.issue(sale).await?;
        if issued.key.email() != &email {
            let order = issued.key.granted().order.as_ref().map(|order| redacted(order.id.as_str()));
            log_seldom!(
                warn,
                order,
                key = %issued.key.id(),
                "a repeated order names another e-mail address; its key stays with the first address"
            );
        }
        Ok(issued)
    }

    /// Issues a key by hand, without an order. A term that `terms` leaves out comes from the product. If the product
    /// does not set it either, it comes from the default [terms](super::Builder::terms). Queues an e-mail if
    /// `send_email` is true.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownProduct`], or [`Error::Store`]. After an error nothing was issued, unless the outcome is
    /// [unknown](crate::store::StoreError::Unknown).
    pub async fn issue_by_hand(
        &self,
        product: ProductId,
        email: Email,
        terms: OwnTerms,
        send_email: bool,
    ) -> Result<Issued, Error> {
        self.issue(self.prepare_by_hand(product, email, terms, send_email).await?).await
    }

    /// Prepares the key of a paid order, and does not store it. The host application can then [name](NewSale::called)
    /// the key, and pass it to [`issue`](Self::issue) or, inside a transaction of its own, to `issue_in`.
    ///
    /// # Errors
    ///
    /// As for [`order`](Self::order).
    pub async fn prepare(&self, order: Order) -> Result<NewSale, Error> {
        let Order { reference, product, email } = order;
        self.sale(product, email, OwnTerms::default(), Some(reference), true).await
    }

    /// Prepares a key that the seller issues by hand, without an order, and does not store it. See also
    /// [`prepare`](Self::prepare).
    ///
    /// # Errors
    ///
    /// As for [`issue_by_hand`](Self::issue_by_hand).
    pub async fn prepare_by_hand(
        &self,
        product: ProductId,
        email: Email,
        terms: OwnTerms,
        send_email: bool,
    ) -> Result<NewSale, Error> {
        self.sale(product, email, terms, None, send_email).await
    }

    /// Issues a key that was [prepared](Self::prepare).
    ///
    /// # Errors
    ///
    /// [`Error::Store`]. After an error nothing was issued, unless the outcome is
    /// [unknown](crate::store::StoreError::Unknown).
    pub async fn issue(&self, sale: NewSale) -> Result<Issued, Error> {
        let delivery = self.clone();
        let issue = async move {
            let issue = delivery.inner.ledger.issue(sale).await?;
            delivery.tell_issued(&issue);
            Ok(delivery.issued(&issue))
        };
        self.inner.run_to_end(issue).await
    }

    /// Call this after the commit. If the key is new, wakes the outbox to send its e-mail, and notifies observers.
    pub(super) fn tell_issued(&self, issue: &Issue) {
        if let Issue::New(key) = issue {
            self.inner.wake.notify_one();
            telemetry::issued();
            self.inner.observers.tell(|| Event::Issued { key: key.clone() });
        }
    }

    pub(super) fn issued(&self, issue: &Issue) -> Issued {
        let (Issue::New(key) | Issue::Existing(key)) = issue;
        let text = self.inner.keyring.text(key.id(), key.granted().secret);
        Issued { key: key.clone(), text, new: matches!(issue, Issue::New(_)) }
    }

    async fn sale(
        &self,
        product: ProductId,
        email: Email,
        terms: OwnTerms,
        order: Option<OrderRef>,
        send_email: bool,
    ) -> Result<NewSale, Error> {
        self.sale_of(self.new_key_id(), (product, email, terms), order, send_email).await
    }

    pub(crate) fn new_key_id(&self) -> KeyId {
        KeyId::random(self.inner.clock.as_ref(), self.inner.entropy.as_ref())
    }

    pub(super) async fn sale_of(
        &self,
        id: KeyId,
        (product, email, terms): (ProductId, Email, OwnTerms),
        order: Option<OrderRef>,
        send_email: bool,
    ) -> Result<NewSale, Error> {
        self.register().await?;
        let inner = &self.inner;
        let found = inner.catalog.product(product).await?.filter(|product| !product.is_archived());
        let Some(product) = found else {
            // The product is unknown or archived. If the order already has a key for it, that key is still returned.
            let before = self.issued_before(product, order).await?.ok_or(Error::UnknownProduct)?;
            return Ok(NewSale::new(NewKey { id, ..before.granted().as_ref().clone() }, Vec::new()));
        };
        let terms = terms.or(product.terms()).unwrap_or(inner.terms);
        let identity = (id, inner.keyring.newest());
        let key = NewKey::on_terms(identity, product.id(), email, terms, inner.clock.now());
        Ok(self.new_sale(NewKey { order, ..key }, send_email)?)
    }

    /// Makes the sale of a new key, with a message to each webhook and, if `send_email` is true, with the e-mail that
    /// delivers the key.
    pub(super) fn new_sale(&self, key: NewKey, send_email: bool) -> Result<NewSale, StoreError> {
        let mut messages = if send_email { vec![Notice::purchase(self.message_id(key.id)?)] } else { Vec::new() };
        messages.extend(self.webhooks(MessageKind::KeyIssued)?);
        Ok(NewSale::new(key, messages))
    }

    /// Returns the key that was issued earlier for this order and product, if there is one.
    pub(super) async fn issued_before(
        &self,
        product: ProductId,
        order: Option<OrderRef>,
    ) -> Result<Option<Key>, Error> {
        let Some(order) = order else { return Ok(None) };
        let OrderRef { source, id } = order;
        let (order, source) = (Some(id), Some(source));
        let query = KeyQuery { order, source, product: Some(product), limit: 1, ..KeyQuery::default() };
        Ok(self.inner.ledger.search(&query).await?.items.pop())
    }
}
