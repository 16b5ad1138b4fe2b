//! What a seller does with keys.

use chrono::{DateTime, Utc};

use super::Desk;
use crate::delivery::{Error, Issued};
use crate::email::Email;
use crate::key::{Change, Key, KeyId, LimitChange, Reason};
use crate::ledger::{Issue, MessageKind, NewSale, Notice, Refused, Resend, Successor};
use crate::observer::Event;
use crate::product::ProductId;
#[cfg(feature = "pages")]
use crate::store::StoreError;
use crate::terms::{OwnTerms, Validity};

/// When a key expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a time is counted from the issue or given")]
pub enum Expiry {
    /// This long after the key was issued.
    AfterIssue(Validity),
    /// At this instant. An instant in the past expires the key.
    At(DateTime<Utc>),
}

impl Desk<'_> {
    /// Issues a key by hand, as [`Delivery::issue_by_hand`](crate::Delivery::issue_by_hand) does.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownProduct`], or [`Error::Store`]. After an error nothing was issued, unless the outcome is
    /// [unknown](crate::store::StoreError::Unknown).
    pub async fn issue(
        &self,
        product: ProductId,
        email: Email,
        terms: OwnTerms,
        send_email: bool,
    ) -> Result<Issued, Error> {
        let sale = self.delivery.prepare_by_hand(product, email, terms, send_email).await?;
        self.delivery.issue(NewSale { by: Some(self.actor.clone()), ..sale }).await
    }

    /// Issues a key by hand, as [`issue`](Self::issue) does, but with the given id. If a key has this id already,
    /// returns that key, or `None` if its product, address or terms differ. A form that contains the id therefore
    /// issues one key, even if it is submitted twice.
    #[cfg(feature = "pages")]
    pub(crate) async fn issue_once(
        &self,
        id: KeyId,
        product: ProductId,
        email: Email,
        terms: OwnTerms,
        send_email: bool,
    ) -> Result<Option<Issued>, Error> {
        let sale = self.delivery.sale_of(id, (product, email, terms), None, send_email).await?;
        let wanted = sale.key.clone();
        if self.delivery.key(id).await?.is_none() {
            match self.delivery.issue(NewSale { by: Some(self.actor.clone()), ..sale }).await {
                // Another submission of the form came first.
                Err(Error::Store(StoreError::Refused { .. })) => {}
                issued => return issued.map(Some),
            }
        }
        let Some(key) = self.delivery.key(id).await? else { return Ok(None) };
        let granted = key.granted();
        // The submissions may be seconds apart, so compare how long the keys are valid. Keys that never expire have the
        // same `expires_at`, but not the same `issued_at`.
        let is_same = granted.email == wanted.email
            && (granted.product, granted.limit) == (wanted.product, wanted.limit)
            && (granted.expires_at == wanted.expires_at
                || granted.expires_at - granted.issued_at == wanted.expires_at - wanted.issued_at);
        Ok(is_same.then(|| self.delivery.issued(&Issue::Existing(key))))
    }

    /// Revokes a key. As soon as this returns, the key is treated as unknown. Revoking a revoked key changes nothing,
    /// unless a platform revoked it: the seller's revocation then replaces the platform's. The buyer gets no e-mail
    /// about the revocation.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], or [`Error::Store`].
    pub async fn revoke(&self, key: KeyId, reason: Option<Reason>) -> Result<Key, Error> {
        let change = Change::Revoke { at: self.now(), reason, by: self.actor.clone() };
        self.delivery.change(key, change).await
    }

    /// Lifts a revocation. Restoring a key that is not revoked changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] if another key replaced this one, or [`Error::Store`].
    pub async fn restore(&self, key: KeyId) -> Result<Key, Error> {
        self.delivery.change(key, Change::Restore { at: self.now(), by: self.actor.clone() }).await
    }

    /// Changes the terms of a key. A term that is `None` stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] if uses are added to a key without a limit, or [`Error::Store`].
    pub async fn set_terms(
        &self,
        key: KeyId,
        expiry: Option<Expiry>,
        limit: Option<LimitChange>,
    ) -> Result<Key, Error> {
        let expires_at = match expiry {
            Some(Expiry::At(at)) => Some(at),
            Some(Expiry::AfterIssue(validity)) => {
                let found = self.delivery.key(key).await?.ok_or(Error::UnknownKey)?;
                Some(validity.expiry(found.granted().issued_at))
            }
            None => None,
        };
        let change = Change::SetTerms { at: self.now(), by: self.actor.clone(), expires_at, limit };
        self.delivery.change(key, change).await
    }

    /// Sends a key to its buyer again. If `email` is given, replaces the address of the key first.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] if the key is revoked or its buyer was erased, or [`Error::Store`].
    pub async fn resend(&self, key: KeyId, email: Option<Email>) -> Result<Key, Error> {
        let messages = vec![Notice::email(self.delivery.new_message_id()?, MessageKind::Resend)];
        let corrected = self.delivery.webhooks(MessageKind::KeyChanged)?;
        let (at, by, inner) = (self.now(), self.actor.clone(), self.delivery.inner.clone());
        let work = async move {
            let is_corrected = email.is_some();
            let resend = Resend { at, by, email, messages, corrected };
            let sent = inner.ledger.resend(key, resend).await?.ok_or(Error::UnknownKey)?;
            let key = sent.map_err(|Refused { refusal, key }| Error::Refused { refusal, key: Box::new(key) })?;
            inner.wake.notify_one();
            if is_corrected {
                inner.observers.tell(|| Event::EmailChanged { key: key.clone() });
            }
            Ok(key)
        };
        self.delivery.inner.run_to_end(work).await
    }

    /// Revokes a key whose text leaked, and issues a successor, which is sent to the buyer. The successor has the same
    /// use limit, count of uses and expiry, and belongs to the same purchase. If the key was already replaced, issues
    /// nothing and returns the successor. If the successor was replaced too, returns the newest successor.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKey`], [`Error::Refused`] if the key is revoked for another reason, or [`Error::Store`].
    pub async fn rotate(&self, key: KeyId) -> Result<Issued, Error> {
        let delivery = self.delivery.clone();
        delivery.register().await?;
        let (inner, at) = (&delivery.inner, self.now());
        let id = delivery.new_key_id();
        let mut messages = vec![Notice::email(delivery.message_id(id)?, MessageKind::Successor)];
        messages.extend(delivery.webhooks(MessageKind::KeyIssued)?);
        let withdrawn = delivery.webhooks(MessageKind::KeyRevoked)?;
        let (secret, by) = (inner.keyring.newest(), self.actor.clone());
        let successor = Successor { id, secret, at, by, messages, withdrawn };
        let service = delivery.clone();
        let work = async move {
            let inner = &service.inner;
            let rotated = inner.ledger.rotate(key, successor).await?.ok_or(Error::UnknownKey)?;
            let issue = rotated.map_err(|Refused { refusal, key }| Error::Refused { refusal, key: Box::new(key) })?;
            if matches!(issue, Issue::New(_))
                && let Ok(Some(key)) = inner.ledger.find(key).await
            {
                inner.observers.tell(|| Event::Revoked { key });
            }
            service.tell_issued(&issue);
            Ok(service.issued(&issue))
        };
        delivery.inner.run_to_end(work).await
    }

    fn now(&self) -> DateTime<Utc> {
        self.delivery.inner.clock.now()
    }
}
