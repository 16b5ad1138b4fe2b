//! The writer: one transaction a batch, whose locks are taken in the same order by every server.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::connect::{BATCH, Sessions};
use super::error::store_error;
use super::plan::Plan;
use super::{catalog, letters, ring};
use crate::store::StoreError;
use crate::store::commit::Writer;
use crate::store::operation::{Answer, Operation};

/// The one who writes, for a share of this server's operations.
pub(super) struct Scribe {
    sessions: Sessions,
    /// None while the server is away, and after a batch whose end is unknown.
    session: Option<PgConnection>,
    pub(super) numbers: Numbers,
}

/// Numbers for uses, taken from the database a thousand at a time.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: i64,
    end: i64,
}

impl Numbers {
    /// As the sequence is declared.
    const BLOCK: i64 = 1000;

    /// The next number; the caller has made sure of it.
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
            self.end = self.next + Self::BLOCK;
        }
        Ok(())
    }
}

impl Scribe {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions, session: None, numbers: Numbers::default() }
    }

    async fn write(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, StoreError> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.sessions.connect().await?,
        };
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
    session.execute("BEGIN").await.map_err(store_error)?;
    // Keys in the order of their numbers, then orders in the order of their names, then the rest one by one: every server
    // does the same, so none waits for a row whose holder waits for it.
    let mut plan = Plan::of(session, numbers, operations).await?;
    for (index, operation) in operations.iter().enumerate() {
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

impl Writer for Scribe {
    type Operation = Operation;
    type Answer = Answer;

    async fn commit(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, StoreError> {
        let written = self.write(operations).await;
        if let Err(error) = &written {
            tracing::warn!(error = error as &dyn std::error::Error, "nothing of a batch was acknowledged");
        }
        written
    }

    async fn upkeep(&mut self) {}

    async fn finish(self) {
        if let Some(session) = self.session {
            // Whatever was acknowledged is committed.
            let _ = timeout(BATCH, session.close()).await;
        }
    }
}
