//! The rows that a batch is planned on.

use std::collections::{HashMap, HashSet};

use super::Basis;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::key::{Key, KeyId, NewKey};
use crate::ledger::StoreError;
use crate::ledger::deal::{Deal, ReferenceKind};
use crate::ledger::inbox::{EventId, InboxEvent};
use crate::ledger::request::RequestId;
use crate::order::{OrderId, OrderRef, Source};
use crate::product::ProductId;

/// The identity of a purchase: it has one key, for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a pair")]
pub struct PurchaseId {
    /// The order.
    pub order: OrderRef,
    /// What was bought with it.
    pub product: ProductId,
}

/// The rows that a batch concerns, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Needs {
    /// Keys to change, by id.
    pub keys: HashSet<KeyId>,
    /// Keys to issue, by id. They exist only if an earlier attempt of the same operation has issued them.
    pub new: HashSet<KeyId>,
    /// Purchases, each with the row of its key.
    pub purchases: HashSet<PurchaseId>,
    /// Events of platforms.
    pub entries: HashSet<EventId>,
    /// References of platforms, each with the number of its deal.
    pub references: HashSet<ReferenceId>,
    /// Deals, by number.
    pub deals: HashSet<i64>,
    /// Requests that may be repeated, each with the key that it came with.
    pub requests: HashSet<(KeyId, RequestId)>,
}

/// What a platform calls something that belongs to a sale.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct ReferenceId {
    /// The platform.
    pub source: Source,
    /// What kind of thing it names.
    pub kind: ReferenceKind,
    /// The platform's name.
    pub name: OrderId,
}

/// A request that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct RequestRow {
    /// The number of the row of the key that it came with.
    pub key: i64,
    /// The request.
    pub request: RequestId,
    /// The product that was asked for.
    pub product: ProductId,
    /// When it was first made, to the millisecond.
    pub at: DateTime<Utc>,
    /// How often it was answered again since.
    pub repeats: u32,
    /// How often the row was written. A row to insert has 0; a row to update has the version that was loaded: the stored row
    /// must still have it, and has the next one afterwards.
    pub version: i64,
}

/// A deal's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct DealRow {
    /// The row's number.
    pub number: i64,
    /// How often the row was written.
    pub version: i64,
    /// The facts.
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
    /// How often the row was written. A [`Storage`](crate::store::Storage) must keep it: calls race between loading and
    /// persisting.
    pub version: i64,
    /// The number of the key's newest use.
    pub last_use: Option<i64>,
    /// Whether the row comes from a cache that another server's write may have made old. Persisting then tells whether it
    /// is; a refusal is never taken from it.
    pub may_be_stale: bool,
}

/// The rows that were asked for. A row that is known to be absent is not the same as a row that was not loaded: planning on
/// the second is an error.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    keys: HashMap<KeyId, PlannedKey>,
    purchases: HashMap<PurchaseId, Option<KeyId>>,
    entries: HashMap<EventId, Option<InboxEvent>>,
    references: HashMap<ReferenceId, Option<i64>>,
    deals: HashMap<i64, Option<DealRow>>,
    requests: HashMap<(KeyId, RequestId), Option<RequestRow>>,
}

/// A key that was loaded, and what is planned for it.
#[derive(Debug, Clone, Default)]
pub(super) struct PlannedKey {
    /// `None` if there is no such key.
    pub(super) row: Option<Row>,
    /// Its index in [`Writes::keys`](super::Writes::keys), if the batch writes it.
    pub(super) unit: Option<usize>,
}

impl ReferenceId {
    /// The reference that leads to the deal of an order. `None` for an order that no platform reports: one of the shop's own webhook.
    #[must_use]
    pub fn of_sale(order: &OrderRef) -> Option<Self> {
        let OrderRef { source, id } = order;
        let is_reported = *source != Source::webhook();
        is_reported.then(|| Self { source: source.clone(), kind: ReferenceKind::Order, name: id.clone() })
    }
}

impl Needs {
    /// Whether it names no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { keys, new, purchases, entries, references, deals, requests } = self;
        let is_of_keys = keys.is_empty() && new.is_empty() && purchases.is_empty();
        is_of_keys && entries.is_empty() && references.is_empty() && deals.is_empty() && requests.is_empty()
    }
}

impl PurchaseId {
    /// The purchase that a key is issued for; `None` for a key issued by hand.
    #[must_use]
    pub fn of(key: &NewKey) -> Option<Self> {
        Some(Self { order: key.order.clone()?, product: key.product })
    }
}

impl Loaded {
    /// All that `needs` asks for, as absent. Add the rows that exist.
    #[must_use]
    pub fn absent(needs: &Needs) -> Self {
        Self {
            keys: needs.keys.iter().chain(&needs.new).map(|id| (*id, PlannedKey::default())).collect(),
            purchases: needs.purchases.iter().map(|id| (id.clone(), None)).collect(),
            entries: needs.entries.iter().map(|id| (id.clone(), None)).collect(),
            references: needs.references.iter().map(|id| (id.clone(), None)).collect(),
            deals: needs.deals.iter().map(|number| (*number, None)).collect(),
            requests: needs.requests.iter().map(|id| (*id, None)).collect(),
        }
    }

    /// Rows that the rows added so far lead to, and that were not asked for yet: deals of references, keys of deals, successors of
    /// keys. Load them too, [expect](Self::expect) them, and ask again, until there are none.
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

    /// Deals that the rows added so far lead to, and that were not asked for yet.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn missing_deals(&self) -> Needs {
        Needs { deals: self.missing().deals, ..Needs::default() }
    }

    /// Asks for further rows, as absent.
    pub fn expect(&mut self, needs: &Needs) {
        self.keys.extend(needs.keys.iter().map(|id| (*id, PlannedKey::default())));
        self.deals.extend(needs.deals.iter().map(|number| (*number, None)));
    }

    /// Adds an event of a platform.
    pub fn insert_entry(&mut self, entry: InboxEvent) {
        self.entries.insert(entry.id.clone(), Some(entry));
    }

    /// Adds the deal of a reference.
    pub fn insert_reference(&mut self, reference: ReferenceId, deal: i64) {
        self.references.insert(reference, Some(deal));
    }

    /// Adds a request that came with a key.
    pub fn insert_request(&mut self, key: KeyId, row: RequestRow) {
        self.requests.insert((key, row.request), Some(row));
    }

    /// Adds a deal.
    pub fn insert_deal(&mut self, row: DealRow) {
        self.deals.insert(row.number, Some(row));
    }

    /// Adds a key's row. If it was issued for an order that the batch needs, its purchase is known with it, unless the key has a
    /// successor: the purchase belongs to that one.
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

    /// Takes an event out, to be written.
    pub(in crate::ledger) fn take_entry(&mut self, id: &EventId) -> Option<InboxEvent> {
        self.entries.remove(id).flatten()
    }

    /// Takes a deal out, to be written.
    pub(in crate::ledger) fn take_deal(&mut self, number: i64) -> Option<DealRow> {
        self.deals.remove(&number).flatten()
    }

    /// A key's row; `None` if there is none.
    pub(crate) fn key(&mut self, id: KeyId) -> Result<Option<&mut Row>, StoreError> {
        Ok(self.planned(id)?.row.as_mut())
    }

    pub(super) fn planned(&mut self, id: KeyId) -> Result<&mut PlannedKey, StoreError> {
        self.keys.get_mut(&id).ok_or(StoreError::corrupt("a key that was not loaded"))
    }

    /// The number of a reference's deal, as far as merged deals are followed; `None` if it has none.
    pub(in crate::ledger) fn deal_of(&self, reference: &ReferenceId) -> Result<Option<i64>, StoreError> {
        let known = self.references.get(reference).ok_or(StoreError::corrupt("a reference that was not loaded"))?;
        let Some(mut number) = *known else { return Ok(None) };
        while let Some(into) = self.deal(number)?.deal.merged() {
            number = into;
        }
        Ok(Some(number))
    }

    /// The deal that a reference leads to; `None` if it leads to none.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn deal_named(&self, reference: &ReferenceId) -> Result<Option<&Deal>, StoreError> {
        let number = self.deal_of(reference)?;
        number.map(|number| Ok(&self.deal(number)?.deal)).transpose()
    }

    pub(in crate::ledger) fn deal(&self, number: i64) -> Result<&DealRow, StoreError> {
        let row = self.deals.get(&number).and_then(Option::as_ref);
        row.ok_or(StoreError::corrupt("a deal that was not loaded"))
    }

    /// An event of a platform; `None` if it is new.
    pub(in crate::ledger) fn entry(&self, id: &EventId) -> Result<Option<&InboxEvent>, StoreError> {
        let entry = self.entries.get(id).ok_or(StoreError::corrupt("an event that was not loaded"))?;
        Ok(entry.as_ref())
    }

    /// A request that came with a key; `None` if it is new.
    pub(in crate::ledger) fn request(&self, key: KeyId, request: RequestId) -> Result<Option<&RequestRow>, StoreError> {
        let row = self.requests.get(&(key, request)).ok_or(StoreError::corrupt("a request that was not loaded"))?;
        Ok(row.as_ref())
    }

    /// Where in [`Writes::keys`](super::Writes::keys) a key is.
    pub(in crate::ledger) fn unit(&self, id: KeyId) -> Option<usize> {
        self.keys.get(&id)?.unit
    }

    /// What an answer about a key rests on.
    pub(in crate::ledger) fn basis(&self, id: KeyId) -> Basis {
        match self.keys.get(&id) {
            Some(PlannedKey { unit: Some(unit), .. }) => Basis::Unit(*unit),
            Some(PlannedKey { row: Some(row), .. }) if row.may_be_stale => Basis::Cached(id),
            _ => Basis::Read,
        }
    }

    /// The key of a purchase; `None` if there is none.
    pub(in crate::ledger) fn purchase(&self, id: &PurchaseId) -> Result<Option<KeyId>, StoreError> {
        self.purchases.get(id).copied().ok_or(StoreError::corrupt("a purchase that was not loaded"))
    }
}
