//! The planner: what a batch of operations comes to, decided in memory.
//!
//! ```text
//! operations ──► needs ──► load (the store) ──► plan ──► writes ──► persist (the store)
//!                                                 └────► answers, once their writes are persisted
//! ```
//!
//! [`needs`] says which rows a batch concerns, [`plan`] decides what becomes of them. Both are pure: no I/O, no clock; times
//! come with the operations and numbers from [`Numbers`]. Order identity, repeated keys and orders within a batch, messages
//! and audit entries are decided here and nowhere else, for every store.
//!
//! The unit of conflict is a key: all rows of a [`KeyWrite`] are persisted together or not at all, and the operations that
//! were planned on it share its fate.

mod loaded;
#[cfg(test)]
mod tests;
mod writes;

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SubsecRound, Utc};

pub use self::loaded::{Loaded, Needs, PurchaseId, Row};
pub use self::writes::{Action, KeyWrite, NewEvent, NewMessage, NewUse, Numbers, Writes};
use super::{Issue, Lease, MessageId, MessageKind, Outcome, Refused, StoreError};
use crate::key::{Actor, Change, Key, KeyId, NewKey};

/// What one operation asks for, and where its answer goes.
#[derive(Debug)]
pub(in crate::store) enum Operation {
    /// Issue a key, once for its order and product, and queue its message.
    Issue(Arc<NewKey>, Option<MessageId>, Reply<Issue>),
    /// Change a key by the rules.
    Change(KeyId, Change, Reply<Changed>),
    /// End a message's lease.
    Complete(Lease, Outcome),
}

/// The key as changed, or why it was not; `None` if it is unknown.
pub(in crate::store) type Changed = Option<Result<Key, Refused>>;

/// Where an operation's answer is put once it holds, for whoever submitted the operation to take.
#[derive(Debug)]
pub(in crate::store) struct Reply<T>(Arc<Mutex<Option<T>>>);

/// A planned batch.
#[derive(Debug)]
pub(in crate::store) struct Plan {
    /// What is to be persisted.
    pub(in crate::store) writes: Writes,
    loaded: Loaded,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    answer: Answer,
    basis: Basis,
}

/// What an answer rests on.
#[derive(Debug, Clone, Copy)]
enum Basis {
    /// On rows that were read, or on the batch: it holds if persisting gave no error.
    Read,
    /// On a cached row that may be old. It holds if the batch writes that key, since persisting tells whether the row is old.
    Cached(KeyId),
    /// On the key at this index in [`Writes::keys`]: it holds if that is persisted.
    Unit(usize),
}

/// An answer, and where it goes.
#[derive(Debug)]
enum Answer {
    Issued(Reply<Issue>, Issue),
    Changed(Reply<Changed>, Changed),
    Completed,
}

/// The rows that `operations` concern.
pub(in crate::store) fn needs<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Needs {
    let mut needs = Needs::default();
    for operation in operations {
        match operation {
            Operation::Issue(key, ..) => {
                needs.new.insert(key.id);
                needs.purchases.extend(PurchaseId::of(key));
            }
            Operation::Change(id, ..) => drop(needs.keys.insert(*id)),
            Operation::Complete(..) => {}
        }
    }
    needs
}

/// What `operations` come to, one after another, beginning with the rows in `loaded`.
///
/// # Errors
///
/// [`StoreError::Corrupt`] if a needed row was not loaded: a fault of the store, never an unknown key.
pub(in crate::store) fn plan<'a>(
    operations: impl IntoIterator<Item = &'a Operation>,
    loaded: Loaded,
    numbers: &mut Numbers,
) -> Result<Plan, StoreError> {
    let mut planner = Planner { loaded, numbers, writes: Writes::default() };
    let entries = operations.into_iter().map(|operation| match operation {
        Operation::Issue(key, message, reply) => {
            let (issue, basis) = planner.issue(key, message.as_ref())?;
            Ok(Entry { answer: Answer::Issued(reply.clone(), issue), basis })
        }
        Operation::Change(id, change, reply) => {
            let (changed, basis) = planner.change(*id, change)?;
            Ok(Entry { answer: Answer::Changed(reply.clone(), changed), basis })
        }
        Operation::Complete(lease, outcome) => {
            planner.writes.completed.push((*lease, outcome.clone()));
            Ok(Entry { answer: Answer::Completed, basis: Basis::Read })
        }
    });
    let entries = entries.collect::<Result<_, StoreError>>()?;
    let Planner { mut loaded, mut writes, .. } = planner;
    for write in &mut writes.keys {
        // As the last operation on it left it.
        if let Some(row) = loaded.key(write.row.key.id())? {
            write.row.clone_from(row);
        }
    }
    Ok(Plan { writes, loaded, entries })
}

impl Plan {
    /// Gives the answers that hold, given which of [`Writes::keys`] were persisted. Returns one entry per operation: whether it
    /// was answered. An operation that was not answered was not applied.
    pub(in crate::store) fn answer(self, persisted: impl Fn(usize) -> bool) -> Vec<bool> {
        let holds = |basis| match basis {
            Basis::Read => true,
            Basis::Cached(id) => self.loaded.unit(id).is_some_and(&persisted),
            Basis::Unit(unit) => persisted(unit),
        };
        let answered = self.entries.into_iter().map(|Entry { answer, basis }| {
            let holds = holds(basis);
            if holds {
                answer.give();
            }
            holds
        });
        answered.collect()
    }
}

impl Answer {
    fn give(self) {
        match self {
            Self::Issued(reply, issue) => reply.give(issue),
            Self::Changed(reply, changed) => reply.give(changed),
            Self::Completed => {}
        }
    }
}

impl<T> Reply<T> {
    pub(in crate::store) fn give(&self, answer: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// The answer, once the operation was answered.
    pub(in crate::store) fn take(&self) -> Result<T, StoreError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.ok_or(StoreError::corrupt("an operation that was answered and has no answer"))
    }
}

impl<T> Default for Reply<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Reply<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Planner<'n> {
    loaded: Loaded,
    numbers: &'n mut Numbers,
    writes: Writes,
}

impl Planner<'_> {
    fn issue(&mut self, new: &Arc<NewKey>, message: Option<&MessageId>) -> Result<(Issue, Basis), StoreError> {
        let purchase = PurchaseId::of(new);
        let owner = match &purchase {
            Some(purchase) => self.loaded.purchase(purchase)?,
            None => None,
        };
        let owner = owner.unwrap_or(new.id);
        let planned = self.loaded.planned(owner)?;
        if let Some(row) = &planned.row {
            let key = row.key.clone();
            let unwritten = if row.may_be_stale { Basis::Cached(owner) } else { Basis::Read };
            let issue = match owner == new.id {
                false => Issue::Existing(key),
                // An earlier attempt of the same operation has issued it.
                true if key.granted() == new => Issue::New(key),
                true => return Err(StoreError::Refused { source: None }),
            };
            return Ok((issue, planned.unit.map_or(unwritten, Basis::Unit)));
        }
        let key = Key::from(new.as_ref().clone());
        let row =
            Row { key: key.clone(), number: self.numbers.take()?, version: 0, last_use: None, may_be_stale: false };
        let unit = self.writes.keys.len();
        if let Some(id) = message {
            let (kind, recipient) = (MessageKind::Purchase, new.email.clone());
            let (number, key, at) = (self.numbers.take()?, row.number, new.issued_at);
            self.writes.messages.push(NewMessage { unit, number, key, id: id.clone(), kind, recipient, at });
        }
        self.writes.keys.push(KeyWrite { row: row.clone(), loaded: None });
        self.loaded.insert(row);
        self.loaded.planned(new.id)?.unit = Some(unit);
        Ok((Issue::New(key), Basis::Unit(unit)))
    }

    fn change(&mut self, id: KeyId, change: &Change) -> Result<(Changed, Basis), StoreError> {
        let planned = self.loaded.planned(id)?;
        let Some(row) = &mut planned.row else { return Ok((None, Basis::Read)) };
        let unwritten = if row.may_be_stale { Basis::Cached(id) } else { Basis::Read };
        let basis = planned.unit.map_or(unwritten, Basis::Unit);
        let changed = match row.key.apply(change) {
            Ok(changed) => changed,
            Err(refusal) => return Ok((Some(Err(Refused { refusal, key: row.key.clone() })), basis)),
        };
        if changed.state() == row.key.state() {
            return Ok((Some(Ok(changed)), basis));
        }
        let unit = planned.unit.unwrap_or(self.writes.keys.len());
        if planned.unit.is_none() {
            planned.unit = Some(unit);
            self.writes.keys.push(KeyWrite { row: row.clone(), loaded: Some(row.key.state().clone()) });
        }
        let number = self.numbers.take()?;
        match change {
            Change::Use { at, .. } => {
                let (key, previous) = (row.number, row.last_use.replace(number));
                let (at, used) = (at.trunc_subsecs(3), changed.used());
                self.writes.uses.push(NewUse { unit, number, key, at, used, previous });
            }
            change => self.writes.events.extend(event(unit, number, row.number, change)),
        }
        row.key = changed.clone();
        Ok((Some(Ok(changed)), Basis::Unit(unit)))
    }
}

/// The audit entry of a change. A use has a row of its own instead.
fn event(unit: usize, number: i64, key: i64, change: &Change) -> Option<NewEvent> {
    let entry = |at: &DateTime<Utc>, by: &Actor, action, detail: Option<String>| {
        Some(NewEvent { unit, number, key, at: at.trunc_subsecs(3), actor: by.clone(), action, detail })
    };
    match change {
        Change::Use { .. } => None,
        Change::Revoke { at, reason, by } => {
            entry(at, by, Action::Revoked, reason.as_ref().map(|reason| reason.as_str().to_owned()))
        }
        Change::Restore { at, by } => entry(at, by, Action::Restored, None),
        Change::SetTerms { at, by, expires_at, limit } => {
            let expires_at = expires_at.map(|at| format!("expires_at {}", crate::clock::timestamp(at)));
            let limit = limit.map(|limit| match limit {
                crate::key::LimitChange::Set(limit) => format!("max_uses {}", limit.as_count()),
                crate::key::LimitChange::Add(uses) => format!("add_uses {}", uses.get()),
            });
            let detail: Vec<String> = expires_at.into_iter().chain(limit).collect();
            entry(at, by, Action::TermsChanged, Some(detail.join(", ")))
        }
    }
}
