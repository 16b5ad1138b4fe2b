//! Plans what happens to keys: the rows, audit entries and messages to write.

use chrono::{DateTime, SubsecRound, Utc};

use super::loaded::PlannedKey;
use super::{Basis, KeyWrite, NewAuditEntry, NewMessage, NewUse, Planner, Row};
use crate::key::{Actor, Alias, Change, Key, KeyId};
use crate::ledger::{Action, Addressee, Notice, Refused, StoreError};

impl Planner<'_> {
    /// Plans the row of a new key and its messages. `heir_of` is the row number of the key that the new key replaces,
    /// if any. Returns the new key's unit: its index in `Writes::keys`.
    pub(in crate::ledger) fn insert(
        &mut self,
        key: Key,
        heir_of: Option<i64>,
        messages: &[Notice],
        at: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let id = key.id();
        let row = Row { key, number: self.numbers.take()?, version: 0, last_use: None, may_be_stale: false };
        let unit = self.writes.keys.len();
        self.queue(unit, &row, messages, at)?;
        self.writes.keys.push(KeyWrite { row: row.clone(), loaded: None, heir_of });
        self.loaded.insert(row);
        self.loaded.planned(id)?.unit = Some(unit);
        Ok(unit)
    }

    /// Returns the unit of a loaded key: its index in `Writes::keys`. Adds the key to `Writes::keys` if the batch does
    /// not write the key yet. Returns `None` if the key is unknown.
    pub(in crate::ledger) fn unit(&mut self, id: KeyId) -> Result<Option<usize>, StoreError> {
        Ok(self.loaded.planned(id)?.write_in(&mut self.writes.keys).map(|(unit, _)| unit))
    }

    /// Adds an alias of a new key. `unit` is the key's index in `Writes::keys`.
    pub(in crate::ledger) fn add_alias(&mut self, unit: usize, alias: Alias) -> Result<(), StoreError> {
        let write = self.writes.keys.get(unit).ok_or(StoreError::corrupt("an alias of no key"))?;
        self.writes.aliases.push((alias, write.row.number));
        self.loaded.insert_alias(alias, write.row.key.id());
        Ok(())
    }

    /// Adds an audit entry about a key. `unit` is the key's index in `Writes::keys`.
    pub(in crate::ledger) fn log(
        &mut self,
        unit: usize,
        at: DateTime<Utc>,
        by: &Actor,
        action: Action,
        detail: Option<String>,
    ) -> Result<(), StoreError> {
        let key = self.writes.keys.get(unit).map(|write| write.row.number);
        let key = key.ok_or(StoreError::corrupt("an audit entry of no key"))?;
        let (number, at, actor) = (self.numbers.take_at(at)?, at.trunc_subsecs(3), by.clone());
        self.writes.audit_entries.push(NewAuditEntry { unit, number, key, at, actor, action, detail });
        Ok(())
    }

    /// Changes a key by [`Key::apply`], and queues `messages` if the key changes. Returns the key after the change, the
    /// refusal if the change is refused, or `None` if the key is unknown.
    pub(in crate::ledger) fn change(
        &mut self,
        id: KeyId,
        change: &Change,
        messages: &[Notice],
    ) -> Result<(Option<Result<Key, Refused>>, Basis), StoreError> {
        let planned = self.loaded.planned(id)?;
        let basis = planned.basis();
        let Some(row) = &planned.row else { return Ok((None, basis)) };
        let changed = match row.key.apply(change) {
            Ok(changed) => changed,
            Err(refusal) => return Ok((Some(Err(Refused { refusal, key: row.key.clone() })), basis)),
        };
        if changed == row.key {
            return Ok((Some(Ok(changed)), basis));
        }
        let Some((unit, row)) = planned.write_in(&mut self.writes.keys) else { return Ok((None, basis)) };
        let before = std::mem::replace(&mut row.key, changed.clone());
        if let Change::Use { at, .. } = change {
            let number = self.numbers.take()?;
            let (key, previous) = (row.number, row.last_use.replace(number));
            let (at, used) = (at.trunc_subsecs(3), changed.used());
            self.writes.uses.push(NewUse { unit, number, key, at, used, previous });
        }
        let row = (!messages.is_empty()).then(|| row.clone());
        if let Some((by, action, detail)) = audit_entry_of(&before, change) {
            self.log(unit, change.at(), by, action, detail)?;
        }
        if let Some(row) = row {
            self.queue(unit, &row, messages, change.at())?;
        }
        Ok((Some(Ok(changed)), Basis::Unit(unit)))
    }

    /// Returns the key that took the place of `id`: the last of its successors, or `id` itself if it has none.
    pub(in crate::ledger) fn heir(&mut self, mut id: KeyId) -> Result<KeyId, StoreError> {
        while let Some(successor) = self.loaded.key(id)?.and_then(|row| row.key.successor()) {
            id = successor;
        }
        Ok(id)
    }

    /// Queues messages about a key that the batch writes.
    pub(in crate::ledger) fn queue(
        &mut self,
        unit: usize,
        row: &Row,
        messages: &[Notice],
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        // A buyer whose data was erased has no address, so messages to the buyer are left out.
        let is_for_nobody = |notice: &&Notice| notice.to == Addressee::Buyer && row.key.email().is_erased();
        for Notice { id, kind, to } in messages.iter().filter(|notice| !is_for_nobody(notice)) {
            let (number, id, kind, recipient) =
                (self.numbers.take_at(at)?, id.clone(), *kind, to.resolve(row.key.email()));
            self.writes.messages.push(NewMessage { unit, number, key: row.number, id, kind, recipient, at });
        }
        Ok(())
    }
}

impl PlannedKey {
    /// Returns the key's row and its index in `keys`, which are the keys that the batch writes. Adds the key to `keys`
    /// if the batch does not write it yet. Returns `None` if the key does not exist.
    fn write_in(&mut self, keys: &mut Vec<KeyWrite>) -> Option<(usize, &mut Row)> {
        let row = self.row.as_mut()?;
        let unit = *self.unit.get_or_insert_with(|| {
            keys.push(KeyWrite { row: row.clone(), loaded: Some(row.key.clone()), heir_of: None });
            keys.len() - 1
        });
        Some((unit, row))
    }
}

/// Returns the actor, the action and the detail of the audit entry for a change. `key` is the key before the change.
/// Returns `None` for a use, which is recorded as a [`NewUse`] instead.
fn audit_entry_of<'c>(key: &Key, change: &'c Change) -> Option<(&'c Actor, Action, Option<String>)> {
    match change {
        Change::Use { .. } => None,
        Change::Revoke { reason, by, .. } => {
            Some((by, Action::Revoked, reason.as_ref().map(|reason| reason.as_str().to_owned())))
        }
        Change::Restore { by, .. } => Some((by, Action::Restored, None)),
        Change::SetTerms { by, expires_at, limit, .. } => {
            let (was, until) = (key.expires_at(), crate::clock::timestamp);
            let expires_at = expires_at.map(|at| format!("expires_at {} to {}", until(was), until(at)));
            let limit = limit.map(|limit| match limit {
                crate::key::LimitChange::Set(limit) => {
                    format!("max_uses {} to {}", key.limit().as_count(), limit.as_count())
                }
                crate::key::LimitChange::Add(uses) => {
                    format!("max_uses {} and {} more", key.limit().as_count(), uses.get())
                }
            });
            let detail: Vec<String> = expires_at.into_iter().chain(limit).collect();
            Some((by, Action::TermsChanged, Some(detail.join(", "))))
        }
        Change::SetEmail { by, .. } => Some((by, Action::EmailChanged, Some(Action::replacing_email(key.email())))),
    }
}
