//! The writer: one transaction a batch, whose locks are taken in the same order by every server. Uses alone, which come
//! most, take fewer trips ([`count`]).

use std::collections::HashSet;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::connect::{ACQUIRE, BATCH, Sessions};
use super::error::store_error;
use super::plan::Plan;
use super::{catalog, count, letters, ring};
use crate::key::KeyId;
use crate::store::StoreError;
use crate::store::commit::Writer;
use crate::store::operation::{Answer, Operation};

/// For so many batches after one whose keys another server changed meanwhile, they are locked before they are read: it goes
/// on using them.
const CONTENDED: u32 = 64;
/// How long a database that is away is left alone.
const REST: std::time::Duration = std::time::Duration::from_millis(100);

/// The one who writes, for a share of this server's operations.
pub(super) struct Scribe {
    sessions: Sessions,
    /// None while the server is away, and after a batch whose end is unknown.
    session: Option<PgConnection>,
    numbers: Numbers,
    /// Whether the last batch found the database away.
    away: bool,
    /// Batches for which keys are locked before they are read.
    contended: u32,
}

const _: () = assert!(crate::store::commit::BATCH <= Numbers::BLOCK, "a batch takes its numbers from one block");

/// Numbers for uses, taken from the database a block at a time.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: i64,
    end: i64,
}

impl Numbers {
    /// As the sequence is declared.
    const BLOCK: usize = 2048;

    /// The next number; the caller has [provided](Self::provide) for it.
    pub(super) fn take(&mut self) -> i64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Takes a new block unless `wanted` are left; a batch is no larger than a block.
    pub(super) async fn provide(&mut self, wanted: usize, session: &mut PgConnection) -> Result<(), StoreError> {
        let left = usize::try_from(self.end - self.next).unwrap_or_default();
        if left < wanted {
            let first = sqlx::query_scalar::<_, i64>("SELECT nextval('delivery_use_number')");
            self.next = first.fetch_one(session).await.map_err(store_error)?;
            self.end = self.next + i64::try_from(Self::BLOCK).unwrap_or_default();
        }
        Ok(())
    }
}

impl Scribe {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions, session: None, numbers: Numbers::default(), away: false, contended: 0 }
    }

    /// Begins a transaction. A session that was idle may have been cut off meanwhile; nothing has happened on it yet, so
    /// another one is as good.
    async fn begin(&mut self) -> Result<PgConnection, StoreError> {
        // The role or the database may have another default, under which two orders at once would not see each other.
        const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        if let Some(mut session) = self.session.take()
            && matches!(timeout(ACQUIRE, session.execute(BEGIN)).await, Ok(Ok(_)))
        {
            return Ok(session);
        }
        // A crash may have taken back the block that a lost session took.
        self.numbers = Numbers::default();
        let mut session = self.sessions.connect_to_serve().await?;
        let begun = timeout(ACQUIRE, session.execute(BEGIN)).await;
        begun.map_err(|_| StoreError::unavailable("the database does not answer"))?.map_err(store_error)?;
        Ok(session)
    }

    /// Counts uses by two statements, each a transaction by itself; None if another server changed one of the keys between
    /// them, and nothing has happened.
    async fn count(
        &mut self,
        operations: &[Operation],
        keys: &HashSet<KeyId>,
    ) -> Result<Option<Vec<Answer>>, StoreError> {
        let mut ready = None;
        // A session that was idle may have been cut off meanwhile: then it is asked on a new one.
        if let Some(mut session) = self.session.take()
            && let Ok(Ok(read)) = timeout(ACQUIRE, count::read(&mut session, keys)).await
        {
            ready = Some((session, read));
        }
        let (mut session, read) = if let Some(ready) = ready {
            ready
        } else {
            // A crash may have taken back the block that a lost session took.
            self.numbers = Numbers::default();
            let mut session = self.sessions.connect_to_serve().await?;
            let read = timeout(BATCH, count::read(&mut session, keys)).await;
            (session, read.map_err(|_| StoreError::unavailable("the database does not answer"))??)
        };
        let written = timeout(BATCH, count::write(&mut session, &mut self.numbers, read, operations)).await;
        let written = written.unwrap_or_else(|_| Err(StoreError::unavailable("the database does not answer")));
        // A statement that was refused has ended; after anything else nobody knows where the session stands.
        if !matches!(written, Err(StoreError::Unavailable { .. })) {
            self.session = Some(session);
        }
        written
    }

    async fn write(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, StoreError> {
        self.contended = self.contended.saturating_sub(1);
        if self.contended == 0
            && let Some(keys) = count::keys(operations)
        {
            if let Some(answers) = self.count(operations, &keys).await? {
                return Ok(answers);
            }
            self.contended = CONTENDED;
        }
        let mut session = self.begin().await?;
        let written = timeout(BATCH, transaction(&mut session, &mut self.numbers, operations)).await;
        match written {
            Ok(Ok(answers)) => {
                self.session = Some(session);
                Ok(answers)
            }
            // A statement was refused, and the session may go on; after anything else nobody knows where it stands.
            Ok(Err(error @ StoreError::Corrupt { .. })) => {
                let rolled_back = timeout(BATCH, session.execute("ROLLBACK")).await;
                self.session = matches!(rolled_back, Ok(Ok(_))).then_some(session);
                Err(error)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::unavailable("the database does not answer")),
        }
    }
}

async fn transaction(
    session: &mut PgConnection,
    numbers: &mut Numbers,
    operations: &[Operation],
) -> Result<Vec<Answer>, StoreError> {
    // Keys in the order of their numbers, then orders in the order of their names, then letters in the order of theirs:
    // every server does the same, so none waits for a row whose holder waits for it.
    let mut plan = Plan::of(session, numbers, operations).await?;
    let mut others: Vec<(usize, &Operation)> = operations.iter().enumerate().collect();
    others.sort_by_key(|(_, operation)| rank(operation));
    for (index, operation) in others {
        let answer = match operation {
            Operation::Issue(..) | Operation::Change(..) => continue,
            Operation::Enroll(fingerprints) => Answer::Enrolled(ring::enroll(session, fingerprints).await?),
            Operation::Prune { before, from } => {
                let (pruned, next) = letters::prune(session, *before, *from).await?;
                Answer::Pruned(pruned, next)
            }
            Operation::Claim { now, lease_until, limit } => {
                Answer::Claimed(letters::claim(session, *now, *lease_until, *limit).await?)
            }
            Operation::Settle(receipt, outcome) => {
                letters::settle(session, *receipt, outcome).await?;
                Answer::Settled
            }
            Operation::Unpark(letter, now) => Answer::Unparked(letters::unpark(session, *letter, *now).await?),
            Operation::AddProduct(product) => Answer::Product(catalog::add_product(session, product).await?),
            Operation::AddPost(post) => Answer::Post(catalog::add_post(session, post).await?),
            Operation::Ping => Answer::Settled,
        };
        plan.answer(index, answer);
    }
    session.execute("COMMIT").await.map_err(store_error)?;
    Ok(plan.answers())
}

/// The order in which a transaction takes what it locks; claims take nothing that is locked.
fn rank(operation: &Operation) -> (u8, i64) {
    match operation {
        Operation::Enroll(_) => (0, 0),
        Operation::Settle(receipt, _) => (1, receipt.letter.get()),
        Operation::Unpark(letter, _) => (1, letter.get()),
        _ => (2, 0),
    }
}

impl Writer for Scribe {
    type Operation = Operation;
    type Answer = Answer;

    async fn commit(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, StoreError> {
        let written = self.write(operations).await;
        let was_away = std::mem::replace(&mut self.away, matches!(written, Err(StoreError::Unavailable { .. })));
        match &written {
            Err(error) if !(was_away && self.away) => {
                tracing::warn!(error = error as &dyn std::error::Error, "nothing of a batch was acknowledged");
            }
            Ok(_) if was_away => tracing::info!("the database answers again"),
            Ok(_) | Err(_) => {}
        }
        written
    }

    async fn upkeep(&mut self) {
        if self.away {
            // What waits is refused together: no storm of sessions on a database that is just starting.
            tokio::time::sleep(REST).await;
        }
    }

    async fn finish(self) {
        if let Some(session) = self.session {
            // Whatever was acknowledged is committed.
            let _ = timeout(BATCH, session.close()).await;
        }
    }
}
