//! The rows that a batch is planned on.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::key::{Key, KeyId, NewKey};
use crate::order::OrderRef;
use crate::product::ProductId;
use crate::store::StoreError;

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
}

/// A key's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "stores build it and must not miss a field")]
pub struct Row {
    /// The key.
    pub key: Key,
    /// The row's number, chosen when the key was issued.
    pub number: i64,
    /// How often the row was written. A store that has no other writers may leave it 0.
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
}

/// A key that was loaded, and what is planned for it.
#[derive(Debug, Clone, Default)]
pub(super) struct PlannedKey {
    /// `None` if there is no such key.
    pub(super) row: Option<Row>,
    /// Its index in [`Writes::keys`](super::Writes::keys), if the batch writes it.
    pub(super) unit: Option<usize>,
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
        }
    }

    /// Adds a key's row. If it was issued for an order that the batch needs, its purchase is known with it.
    pub fn insert(&mut self, row: Row) {
        let id = row.key.id();
        if !self.purchases.is_empty()
            && let Some(purchase) = PurchaseId::of(row.key.granted())
        {
            self.purchases.insert(purchase, Some(id));
        }
        self.keys.entry(id).or_default().row = Some(row);
    }

    /// A key's row; `None` if there is none.
    pub(in crate::store) fn key(&mut self, id: KeyId) -> Result<Option<&mut Row>, StoreError> {
        Ok(self.planned(id)?.row.as_mut())
    }

    pub(super) fn planned(&mut self, id: KeyId) -> Result<&mut PlannedKey, StoreError> {
        self.keys.get_mut(&id).ok_or(StoreError::corrupt("a key that was not loaded"))
    }

    /// Where in [`Writes::keys`](super::Writes::keys) a key is.
    pub(super) fn unit(&self, id: KeyId) -> Option<usize> {
        self.keys.get(&id)?.unit
    }

    /// The key of a purchase; `None` if there is none.
    pub(super) fn purchase(&self, id: &PurchaseId) -> Result<Option<KeyId>, StoreError> {
        self.purchases.get(id).copied().ok_or(StoreError::corrupt("a purchase that was not loaded"))
    }
}
