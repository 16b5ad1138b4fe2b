//! A key with its history.

use super::Desk;
use crate::key::{Denied, Key, KeyId};
use crate::ledger::Amount;
use crate::store::{AuditEntry, AuditQuery, MessageQuery, Page, StoreError, StoredMessage, Subscribed, Use, or_none};

/// The maximum number of entries in each part of a key's history: uses, messages and audit entries.
const NEWEST: usize = 50;

/// A key with its newest uses, messages and audit entries.
pub(crate) struct KeyHistory {
    pub(crate) key: Key,
    /// The subscription that renews the key.
    pub(crate) subscribed: Option<Subscribed>,
    /// What was paid for the key's order.
    pub(crate) total: Option<Amount>,
    /// Why a rule of the host application would refuse a use of the key now.
    pub(crate) denied: Option<Denied>,
    pub(crate) uses: Vec<Use>,
    pub(crate) messages: Vec<StoredMessage>,
    pub(crate) audit: Vec<AuditEntry>,
}

impl Desk<'_> {
    /// Returns the key with this id and its history; `None` if there is no such key. Details that the store does not
    /// keep are missing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub(crate) async fn key_history(&self, id: KeyId) -> Result<Option<KeyHistory>, StoreError> {
        let delivery = self.delivery;
        let Some(key) = delivery.key(id).await? else { return Ok(None) };
        let messages = MessageQuery { key: Some(id), limit: NEWEST, ..MessageQuery::default() };
        let audit = AuditQuery { key: Some(id), limit: NEWEST, ..AuditQuery::default() };
        Ok(Some(KeyHistory {
            subscribed: delivery.subscription_of(&key).await?,
            total: delivery.total_of(&key).await?,
            uses: items(delivery.history(id, None, NEWEST).await)?,
            messages: items(self.messages(&messages).await)?,
            audit: items(self.audit(&audit).await)?,
            denied: delivery.denied(&key),
            key,
        }))
    }
}

fn items<T, C>(found: Result<Page<T, C>, StoreError>) -> Result<Vec<T>, StoreError> {
    Ok(or_none(found)?.map(|page| page.items).unwrap_or_default())
}
