//! The inbox in memory, with deals and customers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::MemoryStore;
use delivery_core::email::Email;
use delivery_core::key::Key;
use delivery_core::ledger::{
    Action, Amount, Customer, Deal, DealRow, Edit, EventId, EventOutcome, InboxEvent, InboxWrites, Loaded, NO_ADDRESS,
    Needs, ReferenceId, ReferenceKind, names_buyer, names_customer, sales_named,
};
use delivery_core::order::{OrderId, Source};
use delivery_core::product::RefName;
use delivery_core::store::{Inbox, InboxQuery, MAX_RETRY_DELAY, Page, StoreError};

#[derive(Default)]
pub(super) struct Mailbox {
    events: BTreeMap<i64, InboxEvent>,
    numbers: HashMap<EventId, i64>,
    references: HashMap<ReferenceId, i64>,
    deals: HashMap<i64, DealRow>,
    customers: HashMap<(Source, OrderId), (Email, DateTime<Utc>)>,
    /// The platforms' names of products that the seller dismissed.
    dismissed: BTreeSet<(Source, RefName)>,
}

impl Mailbox {
    /// Returns how many events need the seller's attention.
    pub(super) fn needs_attention(&self) -> u64 {
        let waiting = self.events.values().filter(|event| event.outcome == Some(EventOutcome::NeedsAttention));
        waiting.count() as u64
    }

    pub(super) fn load(&self, needs: &Needs, loaded: &mut Loaded) {
        for event in needs.events.iter().filter_map(|id| self.event(id)) {
            loaded.insert_event(event.clone());
        }
        for reference in &needs.references {
            if let Some(deal) = self.references.get(reference) {
                loaded.insert_reference(reference.clone(), *deal);
            }
        }
        for row in needs.deals.iter().filter_map(|number| self.deals.get(number)) {
            loaded.insert_deal(row.clone());
        }
    }

    fn event(&self, id: &EventId) -> Option<&InboxEvent> {
        self.events.get(self.numbers.get(id)?)
    }

    /// Returns the deal of a reference. If the deal was merged into another one, returns that one.
    fn deal(&self, reference: &ReferenceId) -> Option<&DealRow> {
        let mut row = self.deals.get(self.references.get(reference)?)?;
        while let Some(into) = row.deal.merged() {
            row = self.deals.get(&into)?;
        }
        Some(row)
    }

    /// Returns whether a subscription renews the key.
    pub(super) fn renews(&self, key: &Key) -> bool {
        let sale = key.granted().order.as_ref().and_then(ReferenceId::of_sale);
        sale.is_some_and(|sale| {
            let deal = self.deal(&sale);
            deal.is_some_and(|row| row.deal.subscription(sale.name.as_str(), key.product()).is_some())
        })
    }

    /// Returns whether a row has another version than the one that was loaded, or a new reference already exists.
    pub(super) fn conflicts(&self, writes: &InboxWrites) -> bool {
        let version = |event: &InboxEvent| self.event(&event.id).map_or(0, |event| event.version);
        let deal_version = |row: &DealRow| self.deals.get(&row.number).map_or(0, |row| row.version);
        writes.events.iter().any(|event| version(event) != event.version)
            || writes.deals.iter().any(|row| deal_version(row) != row.version)
            || writes.references.iter().any(|(reference, _)| self.references.contains_key(reference))
    }

    /// Deletes the customers with this address. Deletes the body of every event that names the address or one of these
    /// customers as the buyer, so that nobody can apply the event any more. The deals of the sales that these events
    /// name record that the buyer's data was erased. `newest` is the newest row number.
    pub(super) fn erase(&mut self, email: &Email, newest: &mut i64) {
        let (same, others) =
            std::mem::take(&mut self.customers).into_iter().partition(|(_, (of, _))| of.is_same(email));
        self.customers = others;
        let customers: HashMap<(Source, OrderId), _> = same;
        let mut sales = BTreeSet::new();
        for event in self.events.values_mut() {
            let is_customers = |body: &str, (source, reference): &(Source, OrderId)| {
                *source == event.id.source && names_customer(body, reference)
            };
            let is_erased = |body: &str| names_buyer(body, email) || customers.keys().any(|id| is_customers(body, id));
            if let Some(body) = event.body.take_if(|body| is_erased(body.as_str())) {
                let source = &event.id.source;
                let named = sales_named(&body).into_iter();
                sales.extend(named.map(|(kind, name)| ReferenceId { source: source.clone(), kind, name }));
                (event.due_at, event.version) = (None, event.version + 1);
                event.outcome = Some(EventOutcome::Ignored);
                event.reason = Some("the customer was erased".to_owned());
            }
        }
        for sale in sales {
            let known = self.deal(&sale).cloned();
            let row = known.unwrap_or_else(|| {
                *newest += 1;
                DealRow { number: *newest, version: 0, deal: Deal::default() }
            });
            self.references.entry(sale).or_insert(row.number);
            let row = DealRow { version: row.version + 1, deal: row.deal.with_buyer_erased(), ..row };
            self.deals.insert(row.number, row);
        }
    }

    /// Returns what was paid, and when.
    pub(super) fn received(&self) -> impl Iterator<Item = (DateTime<Utc>, Amount)> {
        self.deals.values().flat_map(|row| row.deal.received().into_values().collect::<Vec<_>>())
    }

    pub(super) fn persist(&mut self, writes: &InboxWrites) {
        for event in &writes.events {
            self.numbers.insert(event.id.clone(), event.number);
            self.events.insert(event.number, InboxEvent { version: event.version + 1, ..event.clone() });
        }
        self.references.extend(writes.references.iter().cloned());
        for row in &writes.deals {
            self.deals.insert(row.number, DealRow { version: row.version + 1, ..row.clone() });
        }
        for customer in &writes.customers {
            let id = (customer.source.clone(), customer.reference.clone());
            if self.customers.get(&id).is_none_or(|(_, told_at)| *told_at <= customer.told_at) {
                self.customers.insert(id, (customer.email.clone(), customer.told_at));
            }
        }
    }
}

#[async_trait]
impl Inbox for MemoryStore {
    async fn claim_events(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        let mut state = self.state();
        let is_due = |due: DateTime<Utc>| due <= now || due.signed_duration_since(now) > MAX_RETRY_DELAY;
        let due = state.inbox.events.values_mut().filter(|event| event.due_at.is_some_and(is_due));
        Ok(due
            .take(limit)
            .map(|event| {
                event.due_at = Some(lease_until);
                (event.attempts, event.version) = (event.attempts + 1, event.version + 1);
                event.clone()
            })
            .collect())
    }

    async fn retry_events(
        &self,
        source: Option<&Source>,
        customer: Option<&OrderId>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let mut retried = 0;
        for event in self.state().inbox.events.values_mut() {
            let waits = event.outcome == Some(EventOutcome::NeedsAttention);
            let is_of = source.is_none_or(|source| *source == event.id.source);
            let lacks = |customer| {
                let names = |body: &String| names_customer(body, customer);
                event.reason.as_deref() == Some(NO_ADDRESS) && event.body.as_ref().is_some_and(names)
            };
            if waits && is_of && customer.is_none_or(lacks) {
                (event.due_at, event.attempts, event.version) = (Some(now), 0, event.version + 1);
                retried += 1;
            }
        }
        Ok(retried)
    }

    async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
        let size = query.page_size();
        let state = self.state();
        let mut groups = HashSet::new();
        let newest_first = state.inbox.events.values().rev();
        let of_groups = newest_first.filter(|event| query.group(event).is_none_or(|group| groups.insert(group)));
        let found = of_groups.filter(|event| query.matches(event));
        let mut items: Vec<InboxEvent> = found.take(size + 1).cloned().collect();
        let more = items.len() > size;
        items.truncate(size);
        let next = items.last().map(|event| event.number).filter(|_| more);
        Ok(Page { items, next })
    }

    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError> {
        Ok(self.state().inbox.customers.get(&(source.clone(), reference.clone())).map(|(email, _)| email.clone()))
    }

    async fn customers(&self, email: &Email) -> Result<Vec<Customer>, StoreError> {
        let state = self.state();
        let found = state.inbox.customers.iter().filter(|(_, (of, _))| of.is_same(email));
        let customer = |((source, reference), (email, told_at)): (&(Source, OrderId), &(Email, DateTime<Utc>))| {
            Customer { source: source.clone(), reference: reference.clone(), email: email.clone(), told_at: *told_at }
        };
        Ok(found.map(customer).collect())
    }

    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError> {
        let reference = ReferenceId { source: source.clone(), kind, name: name.clone() };
        Ok(self.state().inbox.deal(&reference).map(|row| row.deal.clone()))
    }

    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError> {
        let (mut state, product) = (self.state(), (source.clone(), name.clone()));
        let dismissed = &mut state.inbox.dismissed;
        let is_changed = if is_dismissed { dismissed.insert(product) } else { dismissed.remove(&product) };
        if is_changed {
            state.log((None, None), Action::of_dismissal(is_dismissed), edit);
        }
        Ok(())
    }

    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError> {
        Ok(self.state().inbox.dismissed.contains(&(source.clone(), name.clone())))
    }

    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mailbox = &mut self.state().inbox;
        let kept = mailbox.events.len();
        mailbox.events.retain(|_, event| event.due_at.is_some() || event.received_at >= before);
        let Mailbox { events, numbers, .. } = mailbox;
        numbers.retain(|_, number| events.contains_key(number));
        Ok((kept - events.len()) as u64)
    }
}
