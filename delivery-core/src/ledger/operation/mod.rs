//! What callers ask of the ledger, and what it comes to, decided in memory.
//!
//! ```text
//! operations ──► needs ──► load (the store) ──► plan ──► writes ──► persist (the store)
//!                                                 └────► answers, once their writes are persisted
//! ```
//!
//! [`needs`] says which rows a batch concerns, [`plan`] decides what becomes of them. Both are pure: no I/O, no clock. Times
//! come with the operations and numbers from [`Numbers`]. Each operation has a file, which says what it needs, how many
//! numbers it takes, what it does and what it answers, for every store.
//!
//! The unit of conflict is a key: all rows of a [`KeyWrite`](super::KeyWrite) are persisted together or not at all, and the
//! operations that were planned on it share its fate. A batch that [needs a transaction](Operation::needs_transaction) is one
//! unit: everything it writes is persisted together or not at all.

mod apply;
mod change;
mod complete;
mod fetch;
mod issue;
mod receive;
mod resend;
mod rotate;
#[cfg(test)]
mod tests;

pub use self::change::ChangeKey;
pub use self::complete::CompleteMessage;
pub use self::fetch::{Fetch, FetchProduct, Fetched, IDEMPOTENCY_WINDOW, MOST_REPEATS};
pub use self::receive::{Handling, InboundEvent, Notices, Received};
pub use self::resend::{Resend, ResendKey};
pub use self::rotate::{RotateKey, Successor};
use super::plan::{Basis, Planner};
use super::{Issue, Loaded, Needs, NewSale, Numbers, Refused, StoreError, Writes};
use crate::key::{Key, KeyId};

/// What a caller asks of the [`Ledger`](crate::store::Ledger).
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "a double of a ledger must not miss one")]
pub enum Operation {
    /// Issue a key, once for its order and product, and queue its messages. Answered by [`Answer::Issued`].
    Issue(Box<NewSale>),
    /// Change a key by its rules, and queue messages that tell of it. Answered by [`Answer::Changed`].
    Change(ChangeKey),
    /// Send a key to its buyer again. Answered by [`Answer::Changed`].
    Resend(Box<ResendKey>),
    /// Withdraw a key, and issue another one in its place. Answered by [`Answer::Rotated`].
    Rotate(Box<RotateKey>),
    /// Use a key, unless the same request has used it. Answered by [`Answer::Fetched`].
    Fetch(FetchProduct),
    /// Keep an event of a platform, once, and apply it. Answered by [`Answer::Received`].
    Receive(Box<InboundEvent>),
    /// End a message's lease. Answered by [`Answer::Completed`].
    Complete(CompleteMessage),
}

/// What an [`Operation`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a double of a ledger must not miss one")]
pub enum Answer {
    /// The key of the sale, new or not.
    Issued(Issue),
    /// The key as changed, or why it was not; `None` if it is unknown.
    Changed(Option<Result<Key, Refused>>),
    /// The successor of the key, new or not, or why it has none; `None` if the key is unknown.
    Rotated(Option<Result<Issue, Refused>>),
    /// The use, or why there was none; `None` if the key is unknown.
    Fetched(Option<Result<Fetched, Refused>>),
    /// What the event came to.
    Received(Box<Received>),
    /// The outcome is kept.
    Completed,
}

/// What each operation says of itself.
trait Operate {
    /// Adds the rows that it concerns.
    fn needs(&self, needs: &mut Needs);

    /// How many numbers it takes at most: one for each key, use, audit entry and message.
    fn numbers(&self) -> usize;

    /// The key that it changes, if it is about one key that is there.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "SQLite has no rows that others lock"))]
    fn key(&self) -> Option<KeyId> {
        None
    }

    /// Whether rows lead to further rows that it needs, and everything its batch writes is persisted together or not at all.
    #[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), expect(dead_code, reason = "a store's own affair"))]
    fn needs_transaction(&self) -> bool {
        false
    }

    /// Decides what it comes to, after the operations before it.
    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError>;
}

impl Operation {
    fn operate(&self) -> &dyn Operate {
        match self {
            Self::Issue(sale) => sale.as_ref(),
            Self::Change(change) => change,
            Self::Resend(resend) => resend.as_ref(),
            Self::Rotate(rotate) => rotate.as_ref(),
            Self::Fetch(fetch) => fetch,
            Self::Receive(receipt) => receipt.as_ref(),
            Self::Complete(complete) => complete,
        }
    }

    /// How many numbers it takes at most.
    pub(crate) fn numbers(&self) -> i64 {
        i64::try_from(self.operate().numbers()).unwrap_or(i64::MAX)
    }

    /// The key that it changes, if it is about one key that is there.
    #[cfg(feature = "postgres")]
    pub(crate) fn key(&self) -> Option<KeyId> {
        self.operate().key()
    }

    /// Whether rows lead to further rows that it needs, and everything its batch writes is persisted together or not at all.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn needs_transaction(&self) -> bool {
        self.operate().needs_transaction()
    }
}

/// The rows that `operations` concern.
pub(crate) fn needs<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Needs {
    let mut needs = Needs::default();
    operations.into_iter().for_each(|operation| operation.operate().needs(&mut needs));
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
    let mut planner = Planner::new(loaded, numbers);
    let answers = operations.into_iter().map(|operation| operation.operate().plan(&mut planner));
    let answers = answers.collect::<Result<_, _>>()?;
    let (writes, loaded) = planner.finish()?;
    Ok(Plan { writes, loaded, answers })
}

/// A planned batch.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is to be persisted.
    pub(crate) writes: Writes,
    loaded: Loaded,
    answers: Vec<(Answer, Basis)>,
}

impl Plan {
    /// The answers that hold, given which of [`Writes::keys`] were persisted: one entry for each operation. An operation
    /// without an answer was not applied.
    pub(crate) fn answers(self, persisted: impl Fn(usize) -> bool) -> Vec<Option<Answer>> {
        let holds = |basis: &Basis| match basis {
            Basis::Read => true,
            Basis::Cached(id) => self.loaded.unit(*id).is_some_and(&persisted),
            Basis::Unit(unit) => persisted(*unit),
        };
        self.answers.into_iter().map(|(answer, basis)| holds(&basis).then_some(answer)).collect()
    }
}
