//! The writer, which owns a session and commits batches of operations, and single statements, on it.

use std::time::Duration;

use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::connect::{ACQUIRE, BATCH, Sessions};
use super::error::{may_have_happened, store_error};
use super::locked::{self, LockedRows};
use super::session::Session;
use super::version_cache::VersionCache;
use crate::clock::{Clock, SystemClock};
use crate::ledger::operation::{Operation, Subject};
use crate::ledger::plan::Numbers;
use crate::store::batch::BatchHandler;
use crate::store::sql::{Done, Statement, Work};
use crate::store::{Attempt, StoreError};
use crate::throttle::log_seldom;

/// How long a writer pauses after the database was unavailable, before it tries again.
pub(super) const RECONNECT_DELAY: Duration = Duration::from_millis(100);
/// How often a writer checks that the database is set to keep acknowledged writes after a crash. A writer checks only
/// before a batch, so an idle writer checks later.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(5);

/// A writer. It owns a session, and carries out a part of the operations that are submitted to this store.
pub(super) struct Writer {
    pub(super) sessions: Sessions,
    /// The store's own session, while no batch uses it. `None` while the database is unavailable, and after a batch
    /// whose outcome is unknown. Always `None` if the store uses the host application's pool.
    pub(super) session: Option<Session<'static>>,
    pub(super) numbers: Numbers,
    pub(super) versions: VersionCache,
    pub(super) locked: LockedRows,
    /// Whether the last batch found the database unavailable.
    pub(super) is_unavailable: bool,
    /// The number of further batches for which keys are locked before they are read.
    pub(super) lock_first: u32,
    /// When durability was last checked.
    pub(super) looked: Duration,
}

impl Writer {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self {
            sessions,
            session: None,
            numbers: Numbers::default(),
            versions: VersionCache::default(),
            locked: LockedRows::default(),
            is_unavailable: false,
            lock_first: 0,
            looked: Duration::ZERO,
        }
    }

    /// Opens a new session. Discards the row numbers that were reserved on the previous session, because a database
    /// server that has crashed may hand out the same block of numbers again. Also discards the cached rows.
    pub(super) async fn connect(&mut self) -> Result<Session<'static>, StoreError> {
        self.numbers = Numbers::default();
        self.versions = VersionCache::default();
        self.sessions.serve().await
    }

    /// Begins a transaction. If the connection of the idle session is broken, begins the transaction on a new session.
    /// This is safe, because the transaction has not written anything yet.
    pub(super) async fn begin(&mut self) -> Result<Session<'static>, StoreError> {
        // The isolation level is named, because the role or the database may have another default, under which
        // concurrent orders do not see each other.
        const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        if let Some(mut session) = self.session.take()
            && matches!(timeout(ACQUIRE, session.execute(BEGIN)).await, Ok(Ok(_)))
        {
            return Ok(session);
        }
        let mut session = self.connect().await?;
        if !session.is_ours() {
            return Ok(session);
        }
        let begun = timeout(ACQUIRE, session.execute(BEGIN)).await;
        begun.map_err(|_| StoreError::unavailable("the database does not answer"))?.map_err(store_error)?;
        Ok(session)
    }

    /// Finds out which keys of a batch are locked. Called after the batch has met a lock.
    async fn find_locked(&mut self, operations: &[&Operation]) {
        self.locked.suspect(operations.iter().filter_map(|operation| match operation.subject() {
            Subject::Key(id) => Some(id),
            _ => None,
        }));
        self.look_at_locked().await;
    }

    /// If the last check was at least [`SETTINGS_INTERVAL`] ago, checks that a crash of the database server would still
    /// lose no acknowledged writes. If the check fails, drops the session, so that nothing is committed on this server.
    async fn look_at_durability(&mut self) {
        let now = SystemClock.monotonic();
        if now.saturating_sub(self.looked) < SETTINGS_INTERVAL {
            return;
        }
        self.looked = now;
        let Some(mut session) = self.session.take() else { return };
        // If the check fails, the next batch connects again. That fails too, and its error names the reason.
        if let Ok(Ok(())) = timeout(ACQUIRE, self.sessions.ensure_durable(&mut session)).await {
            self.session = Some(session);
        }
    }

    /// Asks the database which of the locked keys are still locked, if it is time to ask again.
    async fn look_at_locked(&mut self) {
        let now = SystemClock.monotonic();
        let Some(keys) = self.locked.due(now) else { return };
        let session = match self.session.take() {
            None if self.sessions.are_lent() => self.connect().await.ok(),
            session => session,
        };
        let Some(mut session) = session else { return self.locked.forget() };
        match timeout(ACQUIRE, locked::locked(&mut session, &keys)).await {
            Ok(Ok(locked)) => self.locked.keep(locked, now),
            // The whole table is locked, so all these keys count as locked.
            Ok(Err(StoreError::Conflict { .. })) => self.locked.keep(keys, now),
            // The keys count as free. If the database has failed, the next batch reports it.
            Ok(Err(_)) | Err(_) => return self.locked.forget(),
        }
        if session.is_ours() {
            self.session = Some(session);
        } else {
            let _ = timeout(ACQUIRE, session.roll_back()).await;
        }
    }

    /// Runs a single statement that is not part of a batch of operations.
    async fn run(&mut self, statement: &Statement<Session<'static>>) -> Result<Done, StoreError> {
        // The connection of an idle session may be broken, so the session is pinged first. If it does not answer, a new
        // session replaces it. This is safe, because the statement was not sent yet.
        let idle = match self.session.take() {
            Some(mut session) => matches!(timeout(ACQUIRE, session.ping()).await, Ok(Ok(()))).then_some(session),
            None => None,
        };
        let mut session = match idle {
            Some(session) => session,
            None => self.connect().await?,
        };
        let Ok(ran) = timeout(BATCH, statement.run(&mut session)).await else {
            return Err(StoreError::Unknown { source: None });
        };
        match ran {
            Err(error) if may_have_happened(&error) => Err(StoreError::unknown(error)),
            Err(error @ StoreError::Unavailable { .. }) => Err(error),
            ran if session.is_ours() => {
                self.session = Some(session);
                ran
            }
            Ok(done) => match timeout(BATCH, session.finish()).await {
                Ok(Ok(())) => Ok(done),
                Ok(Err(error)) => Err(StoreError::unknown(error)),
                Err(_) => Err(StoreError::Unknown { source: None }),
            },
            Err(error) => {
                // If the rollback fails, the connection is closed.
                let _ = timeout(BATCH, session.roll_back()).await;
                Err(error)
            }
        }
    }
}

impl BatchHandler for Writer {
    type Operation = Work<Session<'static>>;
    type Answer = Result<Done, StoreError>;

    const WRITES: bool = true;

    fn is_alone(work: &Work<Session<'static>>) -> bool {
        matches!(work, Work::Statement(_))
    }

    async fn commit(
        &mut self,
        work: &[Work<Session<'static>>],
        attempt: Attempt,
        after_lock: bool,
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        // Durability is checked before the batch, because this writer may have been idle for hours.
        self.look_at_durability().await;
        // Each statement is a batch of its own (see `is_alone`), so any other batch has only operations.
        if let [Work::Statement(statement)] = work {
            return Ok(vec![Some(self.run(statement).await)]);
        }
        let operations: Vec<&Operation> = work.iter().filter_map(Work::operation).collect();
        let written = self.write(&operations, attempt, after_lock).await;
        if matches!(written, Err(StoreError::Conflict { .. })) {
            self.find_locked(&operations).await;
        }
        let was_unavailable = self.is_unavailable;
        self.is_unavailable = matches!(written, Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }));
        match &written {
            // Not logged, because the queue retries operations that met a lock. The ledger refuses a key whose id or
            // alias another key has, and the caller reports that.
            Err(StoreError::Conflict { .. } | StoreError::Refused { source: None }) => {}
            Err(error) if !(was_unavailable && self.is_unavailable) => {
                log_seldom!(warn, error = error, "nothing of a batch was acknowledged");
            }
            Ok(_) if was_unavailable => tracing::info!("the database has recovered"),
            Ok(_) | Err(_) => {}
        }
        Ok(written?.into_iter().map(|answer| answer.map(|answer| Ok(Done::Answer(answer)))).collect())
    }

    fn is_locked(&self, work: &Work<Session<'static>>, after_lock: bool) -> bool {
        work.operation().is_some_and(|operation| match operation.subject() {
            Subject::Key(id) => self.locked.has_key(&id),
            _ => !after_lock && self.locked.has_other(operation, SystemClock.monotonic()),
        })
    }

    fn met_lock(&mut self, work: &Work<Session<'static>>) {
        if let Some(operation) = work.operation() {
            self.locked.add(operation, SystemClock.monotonic());
        }
    }

    async fn maintain(&mut self) {
        self.look_at_locked().await;
        if self.is_unavailable {
            // The operations that arrive during this pause form one batch, which tries to connect once. Without the
            // pause, each operation might open a session on a database that is just starting.
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    fn restart(&mut self) {
        *self = Self::new(self.sessions.clone());
    }

    async fn finish(self) {
        if let Some(session) = self.session {
            // An error does no harm, because acknowledged operations are already committed.
            let _ = timeout(BATCH, session.close()).await;
        }
    }
}
