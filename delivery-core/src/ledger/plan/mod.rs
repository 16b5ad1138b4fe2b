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
//! were planned on it share its fate. A batch that receives events is one unit: its [`InboxWrites`] and all its keys are
//! persisted together or not at all.

mod keys;
mod loaded;
mod receive;
mod request;
mod rotate;
#[cfg(test)]
mod tests;
mod writes;

use std::sync::{Arc, Mutex, PoisonError};

pub use self::loaded::{DealRow, Loaded, Needs, PurchaseId, ReferenceId, RequestRow, Row};
use self::receive::Touched;
pub(crate) use self::writes::number_at;
pub use self::writes::{InboxWrites, KeyWrite, NewEvent, NewMessage, NewUse, Numbers, Writes};
use super::inbox::{Receipt, Received};
use super::{Fetch, Fetched, Issue, Lease, Notice, Outcome, Refused, Resend, Sale, StoreError, Successor};
use crate::key::{Change, Key, KeyId};

/// What one operation asks for, and where its answer goes.
#[derive(Debug)]
pub(crate) enum Operation {
    /// Issue a key, once for its order and product, and queue its messages.
    Issue(Arc<Sale>, Reply<Issue>),
    /// Change a key by the rules, and queue messages that tell of it.
    Change(KeyId, Change, Vec<Notice>, Reply<Changed>),
    /// Send a key to its buyer again.
    Resend(KeyId, Arc<Resend>, Reply<Changed>),
    /// Withdraw a key, and issue another one in its place.
    Rotate(KeyId, Arc<Successor>, Reply<Rotated>),
    /// Use a key, unless the same request has.
    Fetch(KeyId, Fetch, Reply<Option<Result<Fetched, Refused>>>),
    /// End a message's lease.
    Complete(Lease, Outcome),
    /// Keep an event of a platform, once, and apply it.
    Receive(Arc<Receipt>, Reply<Received>),
}

impl Operation {
    /// How many numbers it takes at most: one for each key, use, audit entry and message.
    pub(crate) fn numbers(&self) -> i64 {
        let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
        match self {
            Self::Issue(sale, _) => count(1 + usize::from(sale.by.is_some()) + sale.messages.len()),
            Self::Change(_, _, messages, _) => count(1 + messages.len()),
            Self::Resend(_, resend, _) => count(2 + resend.messages.len() + resend.corrected.len()),
            Self::Rotate(_, successor, _) => count(3 + successor.messages.len() + successor.withdrawn.len()),
            Self::Fetch(..) => 1,
            Self::Complete(..) => 0,
            Self::Receive(receipt, _) => receipt.numbers(),
        }
    }

    /// Whether rows lead to further rows that it needs, and all that its batch writes is persisted together or not at all.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn is_of_several(&self) -> bool {
        matches!(self, Self::Receive(..) | Self::Rotate(..) | Self::Fetch(..))
    }
}

/// The key as changed, or why it was not; `None` if it is unknown.
pub(crate) type Changed = Option<Result<Key, Refused>>;

/// The successor of a key, new or not, or why it has none; `None` if the key is unknown.
pub(crate) type Rotated = Option<Result<Issue, Refused>>;

/// Where an operation's answer is put once it holds, for whoever submitted the operation to take.
#[derive(Debug)]
pub(crate) struct Reply<T>(Arc<Mutex<Option<T>>>);

/// A planned batch.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is to be persisted.
    pub(crate) writes: Writes,
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
    Rotated(Reply<Rotated>, Box<Rotated>),
    Fetched(Reply<Option<Result<Fetched, Refused>>>, Option<Result<Fetched, Refused>>),
    Completed,
    Received(Reply<Received>, Box<Received>),
}

/// The rows that `operations` concern.
pub(crate) fn needs<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Needs {
    let mut needs = Needs::default();
    for operation in operations {
        match operation {
            Operation::Issue(sale, _) => {
                needs.new.insert(sale.key.id);
                needs.purchases.extend(PurchaseId::of(&sale.key));
            }
            Operation::Change(id, ..) | Operation::Resend(id, ..) | Operation::Rotate(id, ..) => {
                needs.keys.insert(*id);
            }
            Operation::Fetch(id, fetch, _) => {
                needs.keys.insert(*id);
                needs.requests.insert((*id, fetch.request));
            }
            Operation::Complete(..) => {}
            Operation::Receive(receipt, _) => receipt.needs(&mut needs),
        }
    }
    needs
}

/// What `operations` come to, one after another, beginning with the rows in `loaded`.
///
/// # Errors
///
/// [`StoreError::Corrupt`] if a needed row was not loaded: a fault of the store, never an unknown key.
pub(crate) fn plan<'a>(
    operations: impl IntoIterator<Item = &'a Operation>,
    loaded: Loaded,
    numbers: &mut Numbers,
) -> Result<Plan, StoreError> {
    let mut planner = Planner { loaded, numbers, writes: Writes::default(), touched: Touched::default() };
    let entries = operations.into_iter().map(|operation| match operation {
        Operation::Issue(sale, reply) => {
            let (issue, basis) = planner.issue(sale)?;
            Ok(Entry { answer: Answer::Issued(reply.clone(), issue), basis })
        }
        Operation::Change(id, change, messages, reply) => {
            let (changed, basis) = planner.change(*id, change, messages)?;
            Ok(Entry { answer: Answer::Changed(reply.clone(), changed), basis })
        }
        Operation::Resend(id, resend, reply) => {
            let (changed, basis) = planner.resend(*id, resend)?;
            Ok(Entry { answer: Answer::Changed(reply.clone(), changed), basis })
        }
        Operation::Rotate(id, successor, reply) => {
            let rotated = planner.rotate(*id, successor)?;
            Ok(Entry { answer: Answer::Rotated(reply.clone(), Box::new(rotated)), basis: Basis::Read })
        }
        Operation::Fetch(id, fetch, reply) => {
            let (fetched, basis) = planner.fetch(*id, fetch)?;
            Ok(Entry { answer: Answer::Fetched(reply.clone(), fetched), basis })
        }
        Operation::Complete(lease, outcome) => {
            planner.writes.completed.push((*lease, outcome.clone()));
            Ok(Entry { answer: Answer::Completed, basis: Basis::Read })
        }
        Operation::Receive(receipt, reply) => {
            let received = planner.receive(receipt)?;
            Ok(Entry { answer: Answer::Received(reply.clone(), Box::new(received)), basis: Basis::Read })
        }
    });
    let entries = entries.collect::<Result<_, StoreError>>()?;
    let Planner { mut loaded, mut writes, touched, .. } = planner;
    for write in &mut writes.keys {
        // As the last operation on it left it.
        if let Some(row) = loaded.key(write.row.key.id())? {
            write.row.clone_from(row);
        }
    }
    touched.into_writes(&mut loaded, &mut writes.inbox);
    Ok(Plan { writes, loaded, entries })
}

impl Plan {
    /// Gives the answers that hold, given which of [`Writes::keys`] were persisted. Returns one entry per operation: whether it
    /// was answered. An operation that was not answered was not applied.
    pub(crate) fn answer(self, persisted: impl Fn(usize) -> bool) -> Vec<bool> {
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
            Self::Rotated(reply, rotated) => reply.give(*rotated),
            Self::Fetched(reply, fetched) => reply.give(fetched),
            Self::Completed => {}
            Self::Received(reply, received) => reply.give(*received),
        }
    }
}

impl<T> Reply<T> {
    pub(crate) fn give(&self, answer: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// The answer, once the operation was answered.
    pub(crate) fn take(&self) -> Result<T, StoreError> {
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
    touched: Touched,
}
