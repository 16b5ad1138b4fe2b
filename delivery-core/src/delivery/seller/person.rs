//! What the shop knows of one person.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Desk;
use crate::email::Email;
use crate::key::Key;
use crate::ledger::inbox::names_buyer;
use crate::ledger::{Customer, InboxEvent};
use crate::store::{AuditEntry, AuditQuery, InboxQuery, KeyQuery, MessageQuery, Page, StoreError, StoredMessage, Use};

/// How many items are read at a time.
const ITEMS: usize = 1_000;

/// What the shop knows of one person, newest first.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Person {
    /// The keys that were sent to the address, with their uses.
    pub keys: Vec<(Key, Vec<Use>)>,
    /// The messages about these keys.
    pub messages: Vec<StoredMessage>,
    /// The changes of these keys.
    pub changes: Vec<AuditEntry>,
    /// The platform events that concern these keys, or whose content names the address.
    pub events: Vec<InboxEvent>,
    /// The platforms' references to customers with the address.
    pub customers: Vec<Customer>,
}

impl Desk<'_> {
    /// Returns what the shop knows of the person with the address `email`, compared without regard to case. This reads every
    /// platform event. Details that the store does not keep are missing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn person(&self, email: &Email) -> Result<Person, StoreError> {
        let (desk, delivery, mut person) = (*self, self.delivery, Person::default());
        let page = |before| {
            let query = KeyQuery { email: Some(email.clone()), before, limit: ITEMS, ..KeyQuery::default() };
            async move { delivery.keys(&query).await }.boxed()
        };
        for key in all(page, |_| true).await? {
            let id = key.id();
            let page = move |before| async move { delivery.history(id, before, ITEMS).await }.boxed();
            let uses = all(page, |_| true).await?;
            let page = move |before| {
                let query = MessageQuery { key: Some(id), before, limit: ITEMS, ..MessageQuery::default() };
                async move { desk.messages(&query).await }.boxed()
            };
            person.messages.extend(all(page, |_| true).await?);
            let page = move |before| {
                let query = AuditQuery { key: Some(id), before, limit: ITEMS };
                async move { desk.audit(&query).await }.boxed()
            };
            person.changes.extend(all(page, |_| true).await?);
            person.keys.push((key, uses));
        }
        if let Some(office) = delivery.inner.ledger.office() {
            person.customers = office.customers(email).await?;
        }
        let page = move |before| {
            let query = InboxQuery { outcome: None, before, limit: ITEMS };
            async move { delivery.events(&query).await }.boxed()
        };
        person.events = all(page, |event| person.is_about(event, email)).await?;
        Ok(person)
    }
}

impl Person {
    /// Returns whether an event concerns one of these keys, or its content names the person.
    fn is_about(&self, event: &InboxEvent, email: &Email) -> bool {
        let is_customer = |body: &str| {
            let names =
                |customer: &Customer| body.contains(&format!("\"customer\":\"{}\"", customer.reference.as_str()));
            self.customers.iter().any(|customer| customer.source == event.id.source && names(customer))
        };
        event.keys.iter().any(|id| self.keys.iter().any(|(key, _)| key.id() == *id))
            || event.body.as_ref().is_some_and(|body| names_buyer(body, email) || is_customer(body))
    }
}

/// Returns the items of all pages that are to be kept. Returns none if the store does not keep such items.
async fn all<'a, T, C>(
    page: impl Fn(Option<C>) -> BoxFuture<'a, Result<Page<T, C>, StoreError>>,
    is_kept: impl Fn(&T) -> bool,
) -> Result<Vec<T>, StoreError> {
    let (mut items, mut before) = (Vec::new(), None);
    loop {
        let found = match page(before).await {
            Err(StoreError::Unsupported) => return Ok(items),
            found => found?,
        };
        items.extend(found.items.into_iter().filter(&is_kept));
        before = found.next;
        if before.is_none() {
            return Ok(items);
        }
    }
}
