//! The writer: one transaction a batch, whose locks are taken in the same order by every server. Uses alone, which come
//! most, take fewer trips ([`count`]).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::connect::{ACQUIRE, BATCH, Sessions, is_durable};
use super::count::Counted;
use super::error::store_error;
use super::held::Held;
use super::plan::Plan;
use super::remembered::{Remembered, Version};
use super::{catalog, count, held, letters, ring};
use crate::clock::{Clock, SystemClock};
use crate::key::KeyId;
use crate::store::StoreError;
use crate::store::commit::Writer;
use crate::store::operation::{Answer, Operation};
use crate::throttle::Throttle;

/// For so many batches after one whose keys another server changed meanwhile, they are locked before they are read: it goes
/// on using them.
const CONTENDED: u32 = 64;
/// After a lock was met, the batch is tried in parts, and each waits no longer than this for the same lock.
const HURRY: &str = "SET LOCAL lock_timeout = '5ms'";
/// How long a database that is away is left alone.
const REST: Duration = Duration::from_millis(100);
/// How often to ask whether the database is durable: a setting that is switched off is noticed by then.
const LOOK: Duration = Duration::from_secs(5);

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
    remembered: Remembered,
    held: Held,
    /// When durability was looked at.
    looked: Duration,
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
        debug_assert!(wanted <= Self::BLOCK, "more than a block would be another server's");
        let left = usize::try_from(self.end - self.next).unwrap_or_default();
        if left < wanted {
            // Now and then what was planned is planned anew: a table of three rows may have grown since.
            session.execute("DISCARD PLANS").await.map_err(store_error)?;
            let first = sqlx::query_scalar::<_, i64>("SELECT nextval('delivery_use_number')");
            self.next = first.fetch_one(session).await.map_err(store_error)?;
            self.end = self.next + i64::try_from(Self::BLOCK).unwrap_or_default();
        }
        Ok(())
    }
}

impl Scribe {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self {
            sessions,
            session: None,
            numbers: Numbers::default(),
            away: false,
            contended: 0,
            remembered: Remembered::default(),
            held: Held::default(),
            looked: Duration::ZERO,
        }
    }

    /// A new session. What another one learned may hold no longer: a crash may have taken back its block of numbers, and
    /// those of transactions.
    async fn connect(&mut self) -> Result<PgConnection, StoreError> {
        self.numbers = Numbers::default();
        self.remembered = Remembered::default();
        self.sessions.connect_to_serve().await
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
        let mut session = self.connect().await?;
        let begun = timeout(ACQUIRE, session.execute(BEGIN)).await;
        begun.map_err(|_| StoreError::unavailable("the database does not answer"))?.map_err(store_error)?;
        Ok(session)
    }

    /// Reads keys that are not known: on a new session, all of them.
    async fn read(
        &mut self,
        known: &mut HashMap<KeyId, Version>,
        asked: &mut HashSet<KeyId>,
    ) -> Result<PgConnection, StoreError> {
        // A session that was idle may have been cut off meanwhile: then it is asked on a new one.
        if let Some(mut session) = self.session.take() {
            if asked.is_empty() {
                return Ok(session);
            }
            match timeout(ACQUIRE, count::read(&mut session, asked)).await {
                Ok(Ok(read)) => {
                    known.extend(read);
                    return Ok(session);
                }
                // One of these rows cannot be read, or somebody holds the table: no fault of the session's.
                Ok(Err(error @ (StoreError::Corrupt { .. } | StoreError::Contended { .. }))) => {
                    self.session = Some(session);
                    return Err(error);
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let mut session = self.connect().await?;
        asked.extend(known.drain().map(|(id, _)| id));
        let read = timeout(BATCH, count::read(&mut session, asked)).await;
        known.extend(read.map_err(|_| StoreError::unavailable("the database does not answer"))??);
        Ok(session)
    }

    /// Counts uses by a statement that is a transaction by itself; where another server was faster, nothing has happened.
    async fn count(
        &mut self,
        operations: &[Operation],
        keys: HashSet<KeyId>,
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let (mut known, mut asked) = self.remembered.part(keys, SystemClock.monotonic());
        let mut session = self.read(&mut known, &mut asked).await?;
        let counting = count::write(&mut session, &mut self.numbers, (known, &asked), operations);
        let counted = timeout(BATCH, counting).await;
        let counted = counted.unwrap_or_else(|_| Err(StoreError::unavailable("the database does not answer")));
        // A statement that was refused has ended; after anything else nobody knows where the session stands.
        if !matches!(counted, Err(StoreError::Unavailable { .. })) {
            self.session = Some(session);
        }
        let Counted { answers, written, stale } = counted?;
        self.remembered.keep(written, SystemClock.monotonic());
        for (operation, answer) in operations.iter().zip(&answers) {
            match operation {
                Operation::Change(id, _) if answer.is_none() && !stale.contains(id) => self.remembered.ask_for(id),
                Operation::Change(id, _) if answer.is_none() && !asked.contains(id) => self.remembered.doubt(id),
                Operation::Change(..) if answer.is_none() => self.contended = CONTENDED,
                _ => {}
            }
        }
        Ok(answers)
    }

    /// After a lock was met: which keys of the batch somebody else holds.
    async fn find_held(&mut self, operations: &[Operation]) {
        let keys = operations.iter().filter_map(|operation| match operation {
            Operation::Change(id, _) => Some(*id),
            _ => None,
        });
        self.held.suspect(keys);
        self.look_at_held().await;
    }

    /// Asks now and then whether the server still keeps what it acknowledges. Nothing is committed on one that does not.
    async fn look_at_durability(&mut self) {
        let now = SystemClock.monotonic();
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        let Some(mut session) = self.session.take() else { return };
        // Otherwise the next batch connects, and is told why it cannot.
        if let Ok(Ok(true)) = timeout(ACQUIRE, is_durable(&mut session)).await {
            self.session = Some(session);
        }
    }

    /// Asks which of the keys that were held still are.
    async fn look_at_held(&mut self) {
        let now = SystemClock.monotonic();
        let Some(keys) = self.held.due(now) else { return };
        let Some(mut session) = self.session.take() else { return self.held.forget() };
        match timeout(ACQUIRE, held::locked(&mut session, &keys)).await {
            Ok(Ok(locked)) => {
                self.held.keep(locked, now);
                self.session = Some(session);
            }
            // Somebody holds the whole table.
            Ok(Err(StoreError::Contended { .. })) => {
                self.held.keep(keys, now);
                self.session = Some(session);
            }
            // The next batch finds out what is wrong.
            Ok(Err(_)) | Err(_) => self.held.forget(),
        }
    }

    async fn write(&mut self, operations: &[Operation], again: bool) -> Result<Vec<Option<Answer>>, StoreError> {
        self.contended = self.contended.saturating_sub(1);
        if self.contended == 0
            && !again
            && let Some(keys) = count::keys(operations)
        {
            return self.count(operations, keys).await;
        }
        for operation in operations {
            if let Operation::Change(id, _) = operation {
                self.remembered.ask_for(id);
            }
        }
        let mut session = self.begin().await?;
        let written = async {
            if again {
                session.execute(HURRY).await.map_err(store_error)?;
            }
            transaction(&mut session, &mut self.numbers, operations).await
        };
        let written = timeout(BATCH, written).await;
        match written {
            Ok(Ok(answers)) => {
                self.session = Some(session);
                Ok(answers.into_iter().map(Some).collect())
            }
            // A statement was refused, and the session may go on; after anything else nobody knows where it stands.
            Ok(Err(error @ (StoreError::Corrupt { .. } | StoreError::Contended { .. } | StoreError::Full { .. }))) => {
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
    // Orders in the order of their names, then keys in the order of their numbers, then letters in the order of theirs:
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
            Operation::Renew(receipts, until) => {
                letters::renew(session, receipts, *until).await?;
                Answer::Settled
            }
            Operation::UnparkAll(route, now) => Answer::Unparked(letters::unpark_all(session, *route, *now).await?),
            Operation::Unpark(letter, now) => Answer::Unparked(letters::unpark(session, *letter, *now).await?),
            Operation::AddProduct(product) => Answer::Product(catalog::add_product(session, product).await?),
            Operation::AddPost(post) => Answer::Post(catalog::add_post(session, post).await?),
            #[cfg(feature = "sqlite")]
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

    async fn commit(&mut self, operations: &[Operation], again: bool) -> Result<Vec<Option<Answer>>, StoreError> {
        static REFUSED: Throttle = Throttle::new();
        let written = self.write(operations, again).await;
        if matches!(written, Err(StoreError::Contended { .. })) {
            self.find_held(operations).await;
        }
        let was_away = std::mem::replace(&mut self.away, matches!(written, Err(StoreError::Unavailable { .. })));
        match &written {
            // Those that wait are told of by whoever gives up waiting.
            Err(StoreError::Contended { .. }) => {}
            Err(error) if !(was_away && self.away) => {
                if let Some(more) = REFUSED.admit() {
                    tracing::warn!(
                        error = error as &dyn std::error::Error,
                        more,
                        "nothing of a batch was acknowledged"
                    );
                }
            }
            Ok(_) if was_away => tracing::info!("the database answers again"),
            Ok(_) | Err(_) => {}
        }
        written
    }

    fn is_held(&self, operation: &Operation, again: bool) -> bool {
        match operation {
            Operation::Change(id, _) => self.held.holds(id),
            operation => !again && self.held.holds_other(operation, SystemClock.monotonic()),
        }
    }

    fn hold(&mut self, operation: &Operation) {
        self.held.hold(operation, SystemClock.monotonic());
    }

    async fn upkeep(&mut self) {
        self.look_at_held().await;
        self.look_at_durability().await;
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
