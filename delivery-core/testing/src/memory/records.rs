//! The audit log and figures in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};

use super::{MemoryStore, State};
use delivery_core::email::Email;
use delivery_core::key::{Key, KeyId, NewKey, Status};
use delivery_core::ledger::{
    Action, Amount, Currency, Edit, MessageKind, MessageNumber, NewAuditEntry, NewMessage, Recipient, Row, number_at,
};
use delivery_core::product::ProductId;
use delivery_core::store::{
    AuditEntry, AuditQuery, Backlog, Day, ExpiryScan, Figures, MessageQuery, MessageState, Page, Records, StoreError,
    StoredMessage,
};
use delivery_core::terms::NEVER;

impl State {
    /// Adds an entry about a key, a product or neither to the audit log.
    pub(super) fn log(&mut self, (key, product): (Option<KeyId>, Option<ProductId>), action: Action, edit: Edit) {
        self.number += 1;
        let Edit { at, by, detail } = edit;
        let number = number_at(at, self.number);
        self.log.insert(number, AuditEntry { number, at, actor: by, action, key, product, detail });
    }

    /// Stores an audit entry that the planner made, about key `id`.
    pub(super) fn keep(&mut self, entry: &NewAuditEntry, id: KeyId) {
        let NewAuditEntry { number, at, actor, action, detail, .. } = entry.clone();
        self.log.insert(number, AuditEntry { number, at, actor, action, key: Some(id), product: None, detail });
    }

    /// Stores an audit entry about a platform event that somebody applied or dismissed.
    pub(super) fn keep_applied(&mut self, number: i64, action: Action, edit: &Edit) {
        let Edit { at, by, detail } = edit.clone();
        self.log.insert(number, AuditEntry { number, at, actor: by, action, key: None, product: None, detail });
    }
}

fn page<T, C>(found: impl Iterator<Item = T>, size: usize, place: impl Fn(&T) -> C) -> Page<T, C> {
    let mut items: Vec<T> = found.take(size + 1).collect();
    let more = items.len() > size;
    items.truncate(size);
    let next = items.last().map(place).filter(|_| more);
    Page { items, next }
}

#[async_trait]
impl Records for MemoryStore {
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        let state = self.state();
        let found = state.queue.stored().filter(|message| query.matches(message));
        Ok(page(found, query.page_size(), |message| message.message))
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        let state = self.state();
        let found = state.log.values().rev().filter(|entry| query.matches(entry)).cloned();
        Ok(page(found, query.page_size(), |entry| entry.number))
    }

    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError> {
        self.state().log((None, None), action, edit);
        Ok(())
    }

    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
        let state = self.state();
        let mut days: BTreeMap<NaiveDate, Day> = BTreeMap::new();
        let mut count = |at: DateTime<Utc>, change: fn(&mut Day)| {
            let date = at.date_naive();
            if date >= since.date_naive() {
                change(days.entry(date).or_insert_with(|| Day::new(date)));
            }
        };
        let mut keys: Vec<(ProductId, Status, u64)> = Vec::new();
        for key in state.keys.values().map(|row| &row.key).filter(|key| key.successor().is_none()) {
            let (product, status) = (key.product(), key.status(now));
            match keys.iter_mut().find(|(of, with, _)| (*of, *with) == (product, status)) {
                Some((.., count)) => *count += 1,
                None => keys.push((product, status, 1)),
            }
            count(key.granted().issued_at, |day| day.issued += 1);
        }
        for (_, at) in state.uses.values().flatten() {
            count(*at, |day| day.uses += 1);
        }
        for entry in state.log.values().filter(|entry| entry.action == Action::Revoked) {
            count(entry.at, |day| day.revoked += 1);
        }
        let mut replaced: BTreeMap<ProductId, u64> = BTreeMap::new();
        for row in state.keys.values().filter(|row| row.key.successor().is_some()) {
            *replaced.entry(row.key.product()).or_default() += 1;
        }
        let mut paid: BTreeMap<(NaiveDate, Currency), u64> = BTreeMap::new();
        for (at, amount) in state.inbox.received() {
            let date = at.date_naive();
            if date >= since.date_naive() {
                *paid.entry((date, amount.currency)).or_default() += amount.units;
            }
        }
        let revenue = paid.into_iter().map(|((date, currency), units)| (date, Amount { units, currency })).collect();
        Ok(Figures { days: days.into_values().collect(), keys, replaced: replaced.into_iter().collect(), revenue })
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let state = self.state();
        let mut backlog = Backlog { needs_attention: state.inbox.needs_attention(), ..Backlog::default() };
        for message in state.queue.stored() {
            match message.state {
                MessageState::Queued => {
                    backlog.queued += 1;
                    backlog.oldest =
                        Some(backlog.oldest.map_or(message.queued_at, |oldest| oldest.min(message.queued_at)));
                }
                MessageState::Failed => {
                    backlog.failed += 1;
                    let mut all = state.queue.stored();
                    let is_followed = all.any(|later| {
                        later.key == message.key && later.message > message.message && later.kind.brings_key()
                    });
                    let is_live =
                        state.key(message.key).is_ok_and(|key| key.revoked_at().is_none() && !key.email().is_erased());
                    let is_webhook = !matches!(message.recipient, Recipient::Email(_));
                    let is_reminder = message.kind == MessageKind::Expiring;
                    backlog.unanswered += u64::from(is_webhook || !is_reminder && !is_followed && is_live);
                }
                MessageState::Sent => {}
            }
        }
        Ok(backlog)
    }

    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError> {
        let ExpiryScan { now, until, limit, .. } = scan;
        let mut state = self.state();
        let state = &mut *state;
        let is_due = |row: &&Row| {
            let (key, expires_at) = (&row.key, row.key.expires_at());
            let is_soon = now < expires_at && expires_at <= until && expires_at < NEVER;
            let longest = key.granted().expires_at.max(expires_at).signed_duration_since(key.granted().issued_at);
            let is_soon = is_soon && longest >= until - now;
            is_soon
                && key.revoked_at().is_none()
                && key.limit().allows(key.used())
                && state.noticed.get(&key.id()) != Some(&expires_at)
        };
        let mut due: Vec<Key> = state.keys.values().filter(is_due).map(|row| row.key.clone()).collect();
        due.sort_by_key(Key::expires_at);
        due.truncate(limit);
        let names = due.iter().map(|key| scan.name(key.id(), key.expires_at())).collect::<Result<Vec<_>, _>>()?;
        let taken = due.len();
        for (key, id) in due.into_iter().zip(names) {
            state.noticed.insert(key.id(), key.expires_at());
            if !key.email().is_erased() && !state.inbox.renews(&key) {
                state.number += 1;
                let (number, kind) = (number_at(now, state.number), MessageKind::Expiring);
                let recipient = Recipient::Email(key.email().clone());
                let message = NewMessage { unit: 0, number, key: 0, id, kind, recipient, at: now };
                state.queue.add(&message, key.id());
            }
        }
        Ok(taken)
    }

    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError> {
        let mut state = self.state();
        let State { inbox, number, .. } = &mut *state;
        inbox.erase(email, number);
        state.pages.erase(email);
        let had_it = |entry: &AuditEntry| entry.old_email().is_some_and(|old| old.eq_ignore_ascii_case(email.as_str()));
        let had_by: BTreeSet<KeyId> =
            state.log.values().filter(|entry| had_it(entry)).filter_map(|entry| entry.key).collect();
        let State { log, keys, queue, .. } = &mut *state;
        let has = |id: &KeyId| keys.get(id).is_some_and(|row| row.key.email().is_same(email));
        let had = |id: &KeyId| had_by.contains(id);
        for entry in log.values_mut().filter(|entry| entry.key.as_ref().is_some_and(|id| has(id) || had(id))) {
            if had_it(entry) {
                entry.detail = Some(Action::replacing_email(pseudonym));
            } else if entry.action != Action::EmailChanged
                && entry.detail.as_ref().is_some_and(|detail| names(detail, email))
            {
                // The entry of an address change names exactly one address. If that is a longer address which contains
                // this one, it belongs to another person.
                entry.detail = Some("erased".to_owned());
            }
        }
        queue.erase(email, pseudonym, (has, had));
        let mut erased = Vec::new();
        for row in state.keys.values_mut().filter(|row| row.key.email().is_same(email)) {
            let granted = NewKey { email: pseudonym.clone(), ..row.key.granted().as_ref().clone() };
            let mut key_state = row.key.state().clone();
            if let Some(revoked) = &mut key_state.revoked
                && revoked.reason.as_ref().is_some_and(|reason| names(reason.as_str(), email))
            {
                Arc::make_mut(revoked).reason = "erased".parse().ok();
            }
            *row = Row { key: Key::new(Arc::new(granted), key_state), version: row.version + 1, ..row.clone() };
            erased.push(row.key.id());
        }
        for row in state.keys.values_mut().filter(|row| had_by.contains(&row.key.id())) {
            let mut key_state = row.key.state().clone();
            if let Some(revoked) = &mut key_state.revoked
                && revoked.reason.as_ref().is_some_and(|reason| names(reason.as_str(), email))
            {
                Arc::make_mut(revoked).reason = "erased".parse().ok();
                let key = Key::new(Arc::new(row.key.granted().as_ref().clone()), key_state);
                *row = Row { key, version: row.version + 1, ..row.clone() };
            }
        }
        let State { aliases, keys, .. } = &mut *state;
        aliases.retain(|_, id| !erased.contains(id) || keys.get(id).is_none_or(|row| row.key.revoked_at().is_none()));
        let detail = Some(pseudonym.as_str().to_owned());
        state.log((None, None), Action::CustomerErased, Edit { detail, ..edit });
        Ok(erased)
    }
}

/// Returns whether `text` contains the address.
pub(super) fn names(text: &str, email: &Email) -> bool {
    text.to_ascii_lowercase().contains(&email.as_str().to_ascii_lowercase())
}
