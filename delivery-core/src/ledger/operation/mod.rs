//! The operations that callers submit to the ledger. What an operation does is decided in memory, after the store has
//! loaded rows and before it writes rows.
//!
//! ```text
//! operations ──► needs ──► load (the store) ──► plan ──► writes ──► persist (the store)
//!                                                 └────► answers, once their writes are persisted
//! ```
//!
//! [`needs`] returns the rows that a batch needs. [`plan`] decides the answers and the rows to write. Neither uses
//! I/O or a clock: the operations contain the times that they need. The numbers of new rows come from [`Numbers`]. Each
//! operation has its own file, which defines which rows the operation needs, how many numbers it takes, what it does
//! and what it answers. These definitions are the same for every store.
//!
//! If another call has changed a key since it was loaded, the rows of that key are not persisted. The rows of the
//! batch's other keys still are. The rows of one [`KeyWrite`](super::KeyWrite) are persisted together or not at all. An
//! operation that changes a key is answered only if that key's rows are persisted. If an operation [needs a
//! transaction](Operation::needs_transaction), all rows of its batch are persisted together or not at all.

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
pub use self::issue::Issue;
pub use self::receive::{Handling, InboundEvent, Notices, Received};
pub use self::resend::{Resend, ResendKey};
pub use self::rotate::{RotateKey, Successor};
use super::plan::{Basis, Planner};
use super::{EventId, Loaded, MessageNumber, Needs, NewSale, Numbers, Refused, StoreError, Writes};
use crate::key::{Key, KeyId, NewKey};

/// An operation that a caller submits to the [`Ledger`](crate::store::Ledger).
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "a test double of a ledger must handle each variant")]
pub enum Operation {
    /// Issue a key and queue its messages. If the key's order already has a key for the product, nothing is issued.
    /// Answered by [`Answer::Issued`].
    Issue(Box<NewSale>),
    /// Change a key if the rules for keys allow the change, and queue messages that announce the change. Answered by
    /// [`Answer::Changed`].
    Change(ChangeKey),
    /// Send a key to its buyer again. Answered by [`Answer::Changed`].
    Resend(Box<ResendKey>),
    /// Withdraw a key, and issue another key in its place. Answered by [`Answer::Rotated`].
    Rotate(Box<RotateKey>),
    /// Use a key. If the same request has already used the key, no further use is counted. Answered by
    /// [`Answer::Fetched`].
    Fetch(FetchProduct),
    /// Store a platform event and apply it. An event that is received again is not stored again. Answered by
    /// [`Answer::Received`].
    Receive(Box<InboundEvent>),
    /// End a message's lease, and record the outcome of sending the message. Answered by [`Answer::Completed`].
    Complete(CompleteMessage),
}

/// The answer to an [`Operation`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a test double of a ledger must handle each variant")]
pub enum Answer {
    /// The key of the sale, new or existing.
    Issued(Issue),
    /// The changed key, or why the change was refused; `None` if the key is unknown.
    Changed(Option<Result<Key, Refused>>),
    /// The key's successor, new or existing, or why the key was not replaced; `None` if the key is unknown.
    Rotated(Option<Result<Issue, Refused>>),
    /// The use, or why it was refused; `None` if the key is unknown.
    Fetched(Option<Result<Fetched, Refused>>),
    /// The outcome of the event.
    Received(Box<Received>),
    /// The outcome of sending the message was recorded, unless the message was leased again meanwhile.
    Completed,
}

/// Defines methods that return the content of an answer. A method returns an error if the answer belongs to another
/// kind of operation. Only a faulty ledger returns such an answer.
macro_rules! contents {
    ($($name:ident: $variant:ident => $content:ty;)+) => {
        impl Answer { $(
            pub(crate) fn $name(self) -> Result<$content, StoreError> {
                match self {
                    Self::$variant(content) => Ok(content),
                    _ => Err(StoreError::corrupt("the answer of another operation")),
                }
            }
        )+ }
    };
}
contents! {
    issued: Issued => Issue;
    changed: Changed => Option<Result<Key, Refused>>;
    rotated: Rotated => Option<Result<Issue, Refused>>;
    fetched: Fetched => Option<Result<Fetched, Refused>>;
    received: Received => Box<Received>;
}

/// What an operation is about: a key, a platform event or a message. While another transaction has locked the row of
/// this key, event or message, the operation must wait.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only the PostgreSQL store reads all of it"))]
pub(crate) enum Subject<'a> {
    /// The key that the operation issues. If the key belongs to a purchase, the operation must wait while another
    /// transaction issues a key for the same purchase.
    NewKey(&'a NewKey),
    /// An existing key.
    Key(KeyId),
    /// A platform event.
    Event(&'a EventId),
    /// A message of the outbox.
    Message(MessageNumber),
}

/// What each operation defines.
trait Operate {
    /// Adds to `needs` the rows that must be loaded before the operation is planned.
    fn needs(&self, needs: &mut Needs);

    /// Returns the maximum number of row numbers that the operation takes: one for each new key, use, audit entry,
    /// message, event and deal.
    fn numbers(&self) -> usize;

    /// Returns what the operation is about.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "only SQL stores call it")
    )]
    fn subject(&self) -> Subject<'_>;

    /// Returns whether the operation needs a transaction. Such an operation may need rows that can be found only
    /// through other rows, and its batch must be persisted completely or not at all.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "only SQL stores call it")
    )]
    fn needs_transaction(&self) -> bool {
        false
    }

    /// Decides the answer and the rows to write, given the results of the earlier operations of the batch.
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
            Self::Receive(inbound) => inbound.as_ref(),
            Self::Complete(complete) => complete,
        }
    }

    /// Returns the maximum number of row numbers that the operation takes.
    pub(crate) fn numbers(&self) -> i64 {
        i64::try_from(self.operate().numbers()).unwrap_or(i64::MAX)
    }

    /// Returns what the operation is about.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn subject(&self) -> Subject<'_> {
        self.operate().subject()
    }

    /// Returns whether the operation needs a transaction. Such an operation may need rows that can be found only
    /// through other rows, and its batch must be persisted completely or not at all.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn needs_transaction(&self) -> bool {
        self.operate().needs_transaction()
    }
}

/// Returns the rows that must be loaded before `operations` are planned.
pub(crate) fn needs<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Needs {
    let mut needs = Needs::default();
    operations.into_iter().for_each(|operation| operation.operate().needs(&mut needs));
    needs
}

/// Plans `operations` one after another, starting with the rows in `loaded`.
///
/// # Errors
///
/// [`StoreError::Corrupt`] if a needed row was not loaded. That is a fault of the store, which must mark rows that do
/// not exist as absent. Another [`StoreError`] if an operation cannot be planned.
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
    pub(crate) writes: Writes,
    loaded: Loaded,
    answers: Vec<(Answer, Basis)>,
}

impl Plan {
    /// Returns one entry for each operation: its answer, or `None` if the answer is based on a key that was not
    /// persisted. An operation without an answer was not applied. `persisted` returns whether the key at an index in
    /// [`Writes::keys`] was persisted.
    pub(crate) fn answers(self, persisted: impl Fn(usize) -> bool) -> Vec<Option<Answer>> {
        let holds = |basis: &Basis| match basis {
            Basis::Read => true,
            Basis::Cached(id) => self.loaded.unit(*id).is_some_and(&persisted),
            Basis::Unit(unit) => persisted(*unit),
        };
        self.answers.into_iter().map(|(answer, basis)| holds(&basis).then_some(answer)).collect()
    }
}
