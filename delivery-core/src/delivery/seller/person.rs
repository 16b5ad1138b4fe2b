//! The data that the shop has about one person, and its erasure.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Desk;
use crate::email::Email;
use crate::key::{Key, KeyId};
use crate::ledger::{Action, Customer, InboxEvent, Recipient, ReferenceKind, names_buyer, names_customer};
use crate::store::{
    AuditEntry, AuditQuery, InboxQuery, KeyQuery, MessageQuery, Page, StoreError, StoredMessage, Use, or_none,
};

/// How many items are read at a time.
const ITEMS: usize = 1_000;

/// The data that the shop has about one person, who is identified by an e-mail address.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Person {
    /// The keys of the address, newest first.
    pub keys: Vec<KnownKey>,
    /// The messages to the address, grouped by key.
    pub messages: Vec<StoredMessage>,
    /// Audit entries, grouped by key: the entries of these keys, and those entries of other keys that record that this
    /// person's address was replaced. An entry that shows the replaced address of another person is left out.
    pub changes: Vec<AuditEntry>,
    /// The platform events that concern these keys, or whose content names the person, newest first. The content of an
    /// event is left out if it does not name the person.
    pub events: Vec<InboxEvent>,
    /// The platforms' references to customers with the address.
    pub customers: Vec<Customer>,
}

/// A key of a person.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KnownKey {
    /// The key.
    pub key: Key,
    /// When the key was used, newest first.
    pub uses: Vec<Use>,
    /// The platform's references to the sale: its order, payments, invoices and subscription, each with its kind. The
    /// reference by which the key was issued is left out.
    pub references: Vec<(ReferenceKind, String)>,
}

impl Desk<'_> {
    /// Returns the data that the shop has about the person with the address `email`. Addresses are compared without
    /// regard to case. This reads every platform event. Details that the store does not keep are missing.
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
            let references = delivery.references_of(&key).await?;
            // The key may have had the address of another person before. Leave out the changes that replaced an
            // address, except those that replaced `email`.
            let tells = |entry: &AuditEntry| entry.action != Action::EmailChanged || was(entry, email);
            person.add(&desk, id, email, tells).await?;
            person.keys.push(KnownKey { key, uses, references });
        }
        let page = move |before| {
            let query =
                AuditQuery { action: Some(Action::EmailChanged), before, limit: ITEMS, ..AuditQuery::default() };
            async move { desk.audit(&query).await }.boxed()
        };
        let corrected = all(page, |entry| was(entry, email)).await?;
        let others: BTreeSet<KeyId> = corrected.iter().filter_map(|entry| entry.key).collect();
        for id in others {
            if !person.has(id) {
                person.add(&desk, id, email, |entry| was(entry, email)).await?;
            }
        }
        if let Some(office) = delivery.inner.ledger.office() {
            person.customers = office.customers(email).await?;
        }
        let page = move |before| {
            let query = InboxQuery { before, limit: ITEMS, ..InboxQuery::default() };
            async move { delivery.events(&query).await }.boxed()
        };
        let events = all(page, |event| event.keys.iter().any(|id| person.has(*id)) || person.is_named(event, email));
        let mut events = events.await?;
        for event in &mut events {
            if !person.is_named(event, email) {
                event.body = None;
            }
        }
        person.events = events;
        Ok(person)
    }

    /// Erases a person. In keys, messages and the audit log, the address becomes `erased-RANDOM@erased.invalid`. No key
    /// is revoked, and a repeated order still returns its key. Returns the keys that had the address until now. The
    /// following is deleted:
    ///
    /// - the person's requests for lost keys
    /// - the platforms' references to the person
    /// - messages that wait to be sent to the address, if they are about a key that had the address
    /// - the content of platform events that name the person and still
    ///   [can be applied](crate::ledger::InboxEvent::can_be_applied)
    ///
    /// If a platform reports a sale of the person again, the content of that event is not kept, even if no key can be
    /// issued for it. This applies to sales that have a key, and to sales that one of the deleted events named.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no records; another [`StoreError`] if some of the person's data
    /// may be left. The call can then be repeated.
    pub async fn erase(&self, email: &Email) -> Result<Vec<KeyId>, StoreError> {
        let inner = &self.delivery.inner;
        let mut random = [0; 10];
        inner.entropy.fill(&mut random);
        let random = data_encoding::HEXLOWER.encode(&random);
        let pseudonym = Email::erased(&random);
        let pseudonym = pseudonym.map_err(|error| StoreError::corrupt_because("a pseudonym", error))?;
        let erased = inner.office()?.erase(email, &pseudonym, self.edit()).await;
        // Delete the mailer's copies even if the store failed, so that as much as possible is erased at once.
        let forgotten = inner.outbox.mailer.forget(email).await;
        let erased = erased?;
        forgotten
            .map_err(|error| StoreError::unavailable_because("e-mails that were written are still there", error))?;
        Ok(erased)
    }
}

impl Person {
    fn has(&self, id: KeyId) -> bool {
        self.keys.iter().any(|known| known.key.id() == id)
    }

    /// Adds data about one key: the messages that are addressed to the person, and the audit entries that `tells`
    /// selects.
    async fn add(
        &mut self,
        desk: &Desk<'_>,
        id: KeyId,
        email: &Email,
        tells: impl Fn(&AuditEntry) -> bool,
    ) -> Result<(), StoreError> {
        let desk = *desk;
        let page = move |before| {
            let query = MessageQuery { key: Some(id), before, limit: ITEMS, ..MessageQuery::default() };
            async move { desk.messages(&query).await }.boxed()
        };
        let is_to = |message: &StoredMessage| matches!(&message.recipient, Recipient::Email(to) if to.is_same(email));
        self.messages.extend(all(page, is_to).await?);
        let page = move |before| {
            let query = AuditQuery { key: Some(id), before, limit: ITEMS, ..AuditQuery::default() };
            async move { desk.audit(&query).await }.boxed()
        };
        self.changes.extend(all(page, tells).await?);
        Ok(())
    }

    /// Returns whether the content of an event names the person.
    fn is_named(&self, event: &InboxEvent, email: &Email) -> bool {
        let names = |body: &str| {
            let mut same = self.customers.iter().filter(|customer| customer.source == event.id.source);
            names_buyer(body, email) || same.any(|customer| names_customer(body, &customer.reference))
        };
        event.body.as_deref().is_some_and(names)
    }
}

/// Returns whether a change replaced this address with another one.
fn was(entry: &AuditEntry, email: &Email) -> bool {
    entry.old_email().is_some_and(|old| old.eq_ignore_ascii_case(email.as_str()))
}

/// Reads all pages, and returns the items that `is_kept` selects. Returns an empty list if the store does not keep such
/// items.
async fn all<'a, T, C>(
    page: impl Fn(Option<C>) -> BoxFuture<'a, Result<Page<T, C>, StoreError>>,
    is_kept: impl Fn(&T) -> bool,
) -> Result<Vec<T>, StoreError> {
    let (mut items, mut before) = (Vec::new(), None);
    loop {
        let Some(found) = or_none(page(before).await)? else { return Ok(items) };
        items.extend(found.items.into_iter().filter(&is_kept));
        before = found.next;
        if before.is_none() {
            return Ok(items);
        }
    }
}
