//! A store in memory, as a test double. It is short enough to serve as an example for a store of your own, and lasts
//! only as long as the process.

mod catalog;
mod inbox;
mod messages;
mod pages;
mod records;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use self::catalog::Shop;
use self::inbox::Mailbox;
use self::messages::Queue;
use self::pages::PageRows;
use delivery_core::key::{Acceptance, Alias, Fingerprint, Key, KeyId};
use delivery_core::ledger::{
    Action, Edit, FailedMessage, KeyWrite, Lease, LeasedMessage, Loaded, MessageNumber, Needs, Numbers, PurchaseId,
    RequestId, RequestRow, Route, Row, Writes,
};
use delivery_core::store::{
    Aliases, Attempt, AuditEntry, Backend, KeyQuery, Office, Page, Persisted, Requests, Storage, StoreError, Use, UseId,
};

/// A store that keeps everything in memory, behind one lock.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keyring: Vec<Fingerprint>,
    keys: BTreeMap<KeyId, Row>,
    purchases: HashMap<PurchaseId, KeyId>,
    uses: HashMap<KeyId, Vec<(i64, DateTime<Utc>)>>,
    queue: Queue,
    shop: Shop,
    inbox: Mailbox,
    log: BTreeMap<i64, AuditEntry>,
    requests: HashMap<(i64, RequestId), RequestRow>,
    aliases: HashMap<Alias, KeyId>,
    /// The expiry times of which buyers have been notified.
    noticed: HashMap<KeyId, DateTime<Utc>>,
    pages: PageRows,
    number: i64,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the state. Poisoning is ignored: a method that panics leaves no change half made.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key(&self, id: KeyId) -> Result<Key, StoreError> {
        self.keys.get(&id).map(|row| row.key.clone()).ok_or(StoreError::corrupt("a message without its key"))
    }

    fn conflicts(&self, write: &KeyWrite) -> bool {
        let key = &write.row.key;
        match self.keys.get(&key.id()) {
            Some(row) => write.loaded.is_none() || row.version != write.row.version,
            None => PurchaseId::of(key.granted()).is_some_and(|purchase| {
                let owner = self.purchases.get(&purchase).and_then(|id| self.keys.get(id));
                owner.is_some_and(|row| Some(row.number) != write.heir_of)
            }),
        }
    }
}

impl State {
    /// Returns whether a request's row has another version than the one that was loaded.
    fn was_repeated(&self, rows: &[RequestRow]) -> bool {
        let version = |row: &RequestRow| self.requests.get(&(row.key, row.request)).map_or(0, |row| row.version);
        rows.iter().any(|row| version(row) != row.version)
    }
}

#[async_trait]
impl Requests for MemoryStore {
    async fn prune_requests(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut state = self.state();
        let all = state.requests.len();
        state.requests.retain(|_, row| row.at >= before);
        Ok(u64::try_from(all - state.requests.len()).unwrap_or(u64::MAX))
    }
}

#[async_trait]
impl Aliases for MemoryStore {
    async fn alias(&self, any_of: &[Alias]) -> Result<Option<KeyId>, StoreError> {
        let state = self.state();
        Ok(any_of.iter().find_map(|alias| state.aliases.get(alias)).copied())
    }

    async fn has_aliases(&self) -> Result<bool, StoreError> {
        Ok(!self.state().aliases.is_empty())
    }
}

#[async_trait]
impl Storage for MemoryStore {
    async fn load(&self, needs: &Needs, _: Attempt) -> Result<Loaded, StoreError> {
        let (mut loaded, state) = (Loaded::absent(needs), self.state());
        let owners = needs.purchases.iter().filter_map(|purchase| state.purchases.get(purchase));
        for row in needs.keys.iter().chain(&needs.new).chain(owners).filter_map(|id| state.keys.get(id)) {
            loaded.insert(row.clone());
        }
        state.inbox.load(needs, &mut loaded);
        for (id, request) in &needs.requests {
            let row = state.keys.get(id).and_then(|row| state.requests.get(&(row.number, *request)));
            if let Some(row) = row {
                loaded.insert_request(*id, row.clone());
            }
        }
        for alias in &needs.aliases {
            if let Some(key) = state.aliases.get(alias) {
                loaded.insert_alias(*alias, *key);
            }
        }
        loop {
            let missing = loaded.missing();
            if missing.is_empty() {
                return Ok(loaded);
            }
            loaded.expect(&missing);
            for row in missing.keys.iter().filter_map(|id| state.keys.get(id)) {
                loaded.insert(row.clone());
            }
            state.inbox.load(&missing, &mut loaded);
        }
    }

    async fn numbers(&self, count: i64) -> Result<Numbers, StoreError> {
        let mut state = self.state();
        state.number += count;
        Ok(Numbers::block(state.number - count + 1, count))
    }

    async fn persist(&self, writes: &Writes) -> Result<Vec<Persisted>, StoreError> {
        let mut state = self.state();
        let conflicts: Vec<bool> = writes.keys.iter().map(|write| state.conflicts(write)).collect();
        if writes.is_atomic()
            && (conflicts.contains(&true)
                || state.inbox.conflicts(&writes.inbox)
                || state.was_repeated(&writes.requests)
                || writes.aliases.iter().any(|(alias, _)| state.aliases.contains_key(alias)))
        {
            return Err(StoreError::Conflict { source: None });
        }
        state.inbox.persist(&writes.inbox);
        for row in &writes.requests {
            state.requests.insert((row.key, row.request), RequestRow { version: row.version + 1, ..row.clone() });
        }
        let written = |unit: usize| conflicts.get(unit) == Some(&false);
        for (unit, KeyWrite { row, loaded, heir_of }) in
            writes.keys.iter().enumerate().filter(|(unit, _)| written(*unit))
        {
            let id = row.key.id();
            // Only a new key takes over its purchase: the purchase of a replaced key belongs to the successor.
            if let (Some(purchase), None) = (PurchaseId::of(row.key.granted()), loaded) {
                state.purchases.insert(purchase, id);
            }
            // If the buyer was notified of the replaced key's expiry, the successor causes no second e-mail about it.
            let before = heir_of.and_then(|number| state.keys.values().find(|row| row.number == number));
            if let Some(noticed) = before.and_then(|row| state.noticed.get(&row.key.id())).copied() {
                state.noticed.insert(id, noticed);
            }
            state.keys.insert(id, Row { version: row.version + 1, ..row.clone() });
            let uses = writes.uses.iter().filter(|used| used.unit == unit).map(|used| (used.number, used.at));
            state.uses.entry(id).or_default().extend(uses);
            for message in writes.messages.iter().filter(|message| message.unit == unit) {
                state.queue.add(message, id);
            }
            for entry in writes.audit_entries.iter().filter(|entry| entry.unit == unit) {
                state.keep(entry, id);
            }
            let aliases = writes.aliases.iter().filter(|(_, key)| *key == row.number);
            state.aliases.extend(aliases.map(|(alias, _)| (*alias, id)));
        }
        for (number, action, edit) in &writes.inbox.applied {
            state.keep_applied(*number, *action, edit);
        }
        for (lease, outcome) in &writes.completed {
            state.queue.complete(*lease, outcome);
        }
        let persisted = |conflict: &bool| if *conflict { Persisted::Conflict } else { Persisted::Written };
        Ok(conflicts.iter().map(persisted).collect())
    }
}

#[async_trait]
impl Backend for MemoryStore {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        let mut state = self.state();
        let newest = state.keys.values().next_back().map(|row| row.key.granted().secret);
        match Fingerprint::accepts(&state.keyring, newest, keyring) {
            Acceptance::Accepted => {}
            Acceptance::Retired => return Err(StoreError::RetiredSecret),
            Acceptance::Foreign => return Err(StoreError::ForeignSecret),
        }
        let known = |fingerprint: &&Fingerprint| state.keyring.contains(fingerprint);
        let new: Vec<_> = keyring.iter().filter(|fingerprint| !known(fingerprint)).copied().collect();
        state.keyring.extend(new);
        Ok(())
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        let size = query.page_size();
        let state = self.state();
        let keys = state.keys.values().rev().map(|row| &row.key);
        let mut items: Vec<Key> = keys.filter(|key| query.matches(key)).take(size + 1).cloned().collect();
        let more = items.len() > size;
        items.truncate(size);
        let next = items.last().map(Key::id).filter(|_| more);
        Ok(Page { items, next })
    }

    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let mut state = self.state();
        let claimed = state.queue.claim(now, lease_until, limit);
        claimed.into_iter().map(|(claimed, key)| Ok(claimed.with_key(state.key(key)?))).collect()
    }

    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        self.state().queue.renew(leases, lease_until);
        Ok(())
    }

    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        let state = self.state();
        let failed = state.queue.failed(|key, failed| state.key(key).map(failed));
        let mut failed = failed.collect::<Result<Vec<_>, _>>()?;
        failed.sort_by_key(|message| message.failed_at);
        failed.truncate(limit);
        Ok(failed)
    }

    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError> {
        let mut state = self.state();
        let key = state.queue.retry(message, edit.at);
        if key.is_some() {
            state.log((key, None), Action::MessageRetried, edit);
        }
        Ok(key.is_some())
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        Ok(self.state().queue.retry_all(route, now))
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let size = limit.clamp(1, 1000);
        let state = self.state();
        let uses = state.uses.get(&id).map(Vec::as_slice).unwrap_or_default();
        let older = uses.iter().rev().filter(|(number, _)| before.is_none_or(|before| *number < before.get()));
        let mut found: Vec<_> = older.take(size + 1).copied().collect();
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().map(|(number, _)| UseId::new(*number)).filter(|_| more);
        Ok(Page { items: found.into_iter().map(|(_, at)| Use { at }).collect(), next })
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut pruned = 0;
        for uses in self.state().uses.values_mut() {
            // Times may go back. What is older than the newest deleted use is not listed any more.
            let end = uses.iter().rposition(|(_, at)| *at < before).map_or(0, |last| last + 1);
            pruned += uses.drain(..end).filter(|(_, at)| *at < before).count() as u64;
        }
        Ok(pruned)
    }

    fn office(&self) -> Option<&dyn Office> {
        Some(self)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) {}
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("keys", &self.state().keys.len()).finish_non_exhaustive()
    }
}
