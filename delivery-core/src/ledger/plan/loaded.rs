//! The rows that a batch of operations needs, and the rows that were loaded for it.

use std::collections::{HashMap, HashSet};

use super::Basis;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::key::{Alias, Key, KeyId, NewKey};
use crate::ledger::StoreError;
use crate::ledger::deal::{Deal, ReferenceKind};
use crate::ledger::inbox::{EventId, InboxEvent};
use crate::ledger::request::RequestId;
use crate::order::{OrderId, OrderRef, Source};
use crate::product::ProductId;

/// The identity of a purchase: an order and a product. A purchase never has more than one key: the first key that was
/// issued for it, or the successor that replaced a leaked key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct PurchaseId {
    /// The order.
    pub order: OrderRef,
    /// The product that was bought.
    pub product: ProductId,
}

/// The rows that a batch needs, each listed once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Needs {
    /// Keys to read or to change, by id.
    pub keys: HashSet<KeyId>,
    /// Keys to issue, by id. Such a key already exists only if an earlier attempt of the same operation issued it.
    pub new: HashSet<KeyId>,
    /// Purchases; the row of a purchase's key is loaded too.
    pub purchases: HashSet<PurchaseId>,
    /// Platform events.
    pub events: HashSet<EventId>,
    /// Platforms' names for orders, payments and so on. For each name, the number of the deal to which the name belongs
    /// is loaded.
    pub references: HashSet<ReferenceId>,
    /// Deals, by row number.
    pub deals: HashSet<i64>,
    /// Requests that have an idempotency key, each with the API key that the client sent.
    pub requests: HashSet<(KeyId, RequestId)>,
    /// Aliases. For each alias, the id of the key that has the alias is loaded, but not the key's row.
    pub aliases: HashSet<Alias>,
}

/// A platform's name for something that belongs to a sale, such as an order or a payment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct ReferenceId {
    /// The platform.
    pub source: Source,
    /// The kind of thing that the name identifies.
    pub kind: ReferenceKind,
    /// The platform's name for the thing.
    pub name: OrderId,
}

/// The row of a request that has an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct RequestRow {
    /// The row number of the API key that the client sent with the request.
    pub key: i64,
    /// The identity of the request.
    pub request: RequestId,
    /// The product that was requested.
    pub product: ProductId,
    /// When the request was first made, to the millisecond.
    pub at: DateTime<Utc>,
    /// How often the request was repeated without counting another use.
    pub repeats: u32,
    /// The row's version, which counts its writes: 0 for a row to insert, the loaded version for a row to update. An
    /// update requires that the stored row still has this version, and increments it.
    pub version: i64,
}

/// The row of a deal: what a platform has reported about one sale or subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct DealRow {
    /// The row's number.
    pub number: i64,
    /// The row's version: how often it was written.
    pub version: i64,
    /// The facts of the deal.
    pub deal: Deal,
}

/// A key's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct Row {
    /// The key.
    pub key: Key,
    /// The row's number, chosen when the key was issued.
    pub number: i64,
    /// The row's version: how often it was written. A [`Storage`](crate::store::Storage) must store it. Another call
    /// may write the row between loading and persisting, and only the version shows this.
    pub version: i64,
    /// The number of the key's newest use; `None` if the key was never used.
    pub last_use: Option<i64>,
    /// Whether the row comes from a cache and another server may have written it since. If the batch writes the row,
    /// persisting detects whether the row was stale. A refusal is never based on such a row alone.
    pub may_be_stale: bool,
}

/// The rows that were loaded for a batch. A row that is known to be absent is not the same as a row that was not
/// loaded. Planning with a row that was not loaded is an error.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    keys: HashMap<KeyId, PlannedKey>,
    purchases: HashMap<PurchaseId, Option<KeyId>>,
    events: HashMap<EventId, Option<InboxEvent>>,
    references: HashMap<ReferenceId, Option<i64>>,
    deals: HashMap<i64, Option<DealRow>>,
    requests: HashMap<(KeyId, RequestId), Option<RequestRow>>,
    aliases: HashMap<Alias, Option<KeyId>>,
}

/// A loaded key, and what is planned for it.
#[derive(Debug, Clone, Default)]
pub(super) struct PlannedKey {
    /// `None` if the key does not exist.
    pub(super) row: Option<Row>,
    /// The key's index in [`Writes::keys`](super::Writes::keys), if the batch writes the key.
    pub(super) unit: Option<usize>,
}

impl PlannedKey {
    /// Returns what an answer about the key is based on: a planned write of the key, a cached row that may be stale, or
    /// neither of these.
    pub(super) fn basis(&self) -> Basis {
        match self {
            Self { unit: Some(unit), .. } => Basis::Unit(*unit),
            Self { row: Some(row), .. } if row.may_be_stale => Basis::Cached(row.key.id()),
            _ => Basis::Read,
        }
    }
}

impl ReferenceId {
    /// Returns the reference by which the deal of an order is found. Returns `None` for an order from the shop's own
    /// webhook, because no platform reports such an order.
    #[must_use]
    pub fn of_sale(order: &OrderRef) -> Option<Self> {
        let OrderRef { source, id } = order;
        let is_reported = *source != Source::webhook();
        is_reported.then(|| Self { source: source.clone(), kind: ReferenceKind::Order, name: id.clone() })
    }
}

impl Needs {
    /// Returns whether no row is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { keys, new, purchases, events, references, deals, requests, aliases } = self;
        let is_of_keys = keys.is_empty() && new.is_empty() && purchases.is_empty() && aliases.is_empty();
        is_of_keys && events.is_empty() && references.is_empty() && deals.is_empty() && requests.is_empty()
    }
}

impl PurchaseId {
    /// Returns the purchase for which a key is issued; `None` for a key issued by hand.
    #[must_use]
    pub fn of(key: &NewKey) -> Option<Self> {
        Some(Self { order: key.order.clone()?, product: key.product })
    }
}

impl Loaded {
    /// Marks every row in `needs` as absent. The store then adds the rows that exist.
    #[must_use]
    pub fn absent(needs: &Needs) -> Self {
        Self {
            keys: needs.keys.iter().chain(&needs.new).map(|id| (*id, PlannedKey::default())).collect(),
            purchases: needs.purchases.iter().map(|id| (id.clone(), None)).collect(),
            events: needs.events.iter().map(|id| (id.clone(), None)).collect(),
            references: needs.references.iter().map(|id| (id.clone(), None)).collect(),
            deals: needs.deals.iter().map(|number| (*number, None)).collect(),
            requests: needs.requests.iter().map(|id| (*id, None)).collect(),
            aliases: needs.aliases.iter().map(|alias| (*alias, None)).collect(),
        }
    }

    /// Returns which rows are still to be loaded, because rows that were loaded so far refer to them: deals of
    /// references, deals into which others were merged, keys of deals, and successors of keys. A store first
    /// [marks](Self::expect) all of these as absent, and then adds the rows that it finds. It repeats this until no row
    /// is missing.
    #[must_use]
    pub fn missing(&self) -> Needs {
        let is_missing = |number: &i64| !self.deals.contains_key(number);
        let merged = self.deals.values().flatten().filter_map(|row| row.deal.merged());
        let deals = self.references.values().flatten().copied().chain(merged).filter(is_missing).collect();
        let keys = self.deals.values().flatten().flat_map(|row| row.deal.keys());
        let successors = self.keys.values().filter_map(|planned| planned.row.as_ref()?.key.successor());
        let keys = keys.chain(successors).filter(|id| !self.keys.contains_key(id)).collect();
        Needs { keys, deals, ..Needs::default() }
    }

    /// Returns the deals to which the rows added so far refer, except those that were requested already.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn missing_deals(&self) -> Needs {
        Needs { deals: self.missing().deals, ..Needs::default() }
    }

    /// Marks further keys and deals as absent. The store then adds the rows that exist.
    pub fn expect(&mut self, needs: &Needs) {
        self.keys.extend(needs.keys.iter().map(|id| (*id, PlannedKey::default())));
        self.deals.extend(needs.deals.iter().map(|number| (*number, None)));
    }

    /// Adds a platform event.
    pub fn insert_event(&mut self, event: InboxEvent) {
        self.events.insert(event.id.clone(), Some(event));
    }

    /// Adds a reference with the number of its deal.
    pub fn insert_reference(&mut self, reference: ReferenceId, deal: i64) {
        self.references.insert(reference, Some(deal));
    }

    /// Adds a request, and the API key that the client sent with it.
    pub fn insert_request(&mut self, key: KeyId, row: RequestRow) {
        self.requests.insert((key, row.request), Some(row));
    }

    /// Adds an alias with the id of its key.
    pub fn insert_alias(&mut self, alias: Alias, key: KeyId) {
        self.aliases.insert(alias, Some(key));
    }

    /// Adds a deal.
    pub fn insert_deal(&mut self, row: DealRow) {
        self.deals.insert(row.number, Some(row));
    }

    /// Adds a key's row. If the batch needs purchases, also records the key as the key of its purchase. A key that has
    /// a successor is not recorded, because the purchase then belongs to the successor.
    pub fn insert(&mut self, row: Row) {
        let id = row.key.id();
        if !self.purchases.is_empty()
            && row.key.successor().is_none()
            && let Some(purchase) = PurchaseId::of(row.key.granted())
        {
            self.purchases.insert(purchase, Some(id));
        }
        self.keys.entry(id).or_default().row = Some(row);
    }

    /// Removes a platform event from the loaded rows and returns it, so that it can be written.
    pub(in crate::ledger) fn take_event(&mut self, id: &EventId) -> Option<InboxEvent> {
        self.events.remove(id).flatten()
    }

    /// Removes a deal from the loaded rows and returns it, so that it can be written.
    pub(in crate::ledger) fn take_deal(&mut self, number: i64) -> Option<DealRow> {
        self.deals.remove(&number).flatten()
    }

    /// Returns a key's row; `None` if the key does not exist.
    pub(crate) fn key(&mut self, id: KeyId) -> Result<Option<&mut Row>, StoreError> {
        Ok(self.planned(id)?.row.as_mut())
    }

    pub(super) fn planned(&mut self, id: KeyId) -> Result<&mut PlannedKey, StoreError> {
        self.keys.get_mut(&id).ok_or(StoreError::corrupt("a key that was not loaded"))
    }

    /// Returns the number of a reference's deal. If that deal was merged into another one, returns the number of the
    /// other deal. Returns `None` if the reference has no deal.
    pub(in crate::ledger) fn deal_of(&self, reference: &ReferenceId) -> Result<Option<i64>, StoreError> {
        let known = self.references.get(reference).ok_or(StoreError::corrupt("a reference that was not loaded"))?;
        let Some(mut number) = *known else { return Ok(None) };
        while let Some(into) = self.deal(number)?.deal.merged() {
            number = into;
        }
        Ok(Some(number))
    }

    /// Returns the deal of a reference. If that deal was merged into another one, returns the other deal. Returns
    /// `None` if the reference has no deal.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn deal_named(&self, reference: &ReferenceId) -> Result<Option<&DealRow>, StoreError> {
        self.deal_of(reference)?.map(|number| self.deal(number)).transpose()
    }

    pub(in crate::ledger) fn deal(&self, number: i64) -> Result<&DealRow, StoreError> {
        let row = self.deals.get(&number).and_then(Option::as_ref);
        row.ok_or(StoreError::corrupt("a deal that was not loaded"))
    }

    /// Returns a stored platform event; `None` if the event is not stored yet.
    pub(in crate::ledger) fn event(&self, id: &EventId) -> Result<Option<&InboxEvent>, StoreError> {
        let event = self.events.get(id).ok_or(StoreError::corrupt("an event that was not loaded"))?;
        Ok(event.as_ref())
    }

    /// Returns a stored request that was made with a key; `None` if the request is not stored yet.
    pub(in crate::ledger) fn request(&self, key: KeyId, request: RequestId) -> Result<Option<&RequestRow>, StoreError> {
        let row = self.requests.get(&(key, request)).ok_or(StoreError::corrupt("a request that was not loaded"))?;
        Ok(row.as_ref())
    }

    /// Returns the id of the key that has an alias; `None` if no key has it.
    pub(in crate::ledger) fn alias(&self, alias: &Alias) -> Result<Option<KeyId>, StoreError> {
        self.aliases.get(alias).copied().ok_or(StoreError::corrupt("an alias that was not loaded"))
    }

    /// Returns a key's index in [`Writes::keys`](super::Writes::keys), if the batch writes the key.
    pub(in crate::ledger) fn unit(&self, id: KeyId) -> Option<usize> {
        self.keys.get(&id)?.unit
    }

    /// Returns what an answer about a key is based on.
    pub(in crate::ledger) fn basis(&self, id: KeyId) -> Basis {
        self.keys.get(&id).map_or(Basis::Read, PlannedKey::basis)
    }

    /// Returns the key of a purchase; `None` if the purchase has no key.
    pub(in crate::ledger) fn purchase(&self, id: &PurchaseId) -> Result<Option<KeyId>, StoreError> {
        self.purchases.get(id).copied().ok_or(StoreError::corrupt("a purchase that was not loaded"))
    }
}
