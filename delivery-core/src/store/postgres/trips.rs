//! Writing a batch: its rows are loaded, and the batch is planned and persisted. The [`Attempt`] decides how:
//!
//! | attempt | how rows are loaded | when a key is written |
//! |---|---|---|
//! | optimistic | from the cache, or read; orders are assumed to be new | if its row has the version that was loaded |
//! | reloaded | read from the database | if its row has the version that was loaded |
//! | locking | locked, then read, in a transaction | always, unless its purchase got another key in the meantime |
//!
//! The following batches are written as in a locking attempt, even if their attempt is optimistic or reloaded:
//!
//! - every batch on a connection of the host application;
//! - a batch that must be written completely or not at all, such as one with platform events;
//! - a batch whose operations have already met a lock;
//! - the next 64 batches after another server has changed a key between this server's read and write of the key.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::alias;
use super::connect::{ACQUIRE, BATCH};
use super::error::{may_have_happened, store_error};
use super::inbox;
use super::load;
use super::numbers::{BLOCK, next_number};
use super::persist::persist;
use super::request;
use super::resolve::resolve;
use super::session::Session;
use super::writer::{RECONNECT_DELAY, Writer};
use crate::clock::{Clock, SystemClock};
use crate::key::KeyId;
use crate::ledger::operation::{Answer, Operation, Plan, needs, plan};
use crate::ledger::plan::{Loaded, Needs, Numbers, Row};
use crate::store::{Attempt, Persisted, StoreError};

/// If another server changes a key between this server's read and write of the key, more such conflicts are likely to
/// follow. The writer then locks keys before it reads them, for this number of batches.
const LOCK_FIRST: u32 = 64;
/// The lock timeout for operations that have already met a lock. Their batch may be halved repeatedly, and each half
/// that needs a locked row waits for this time.
const HURRY: &str = "SET LOCAL lock_timeout = '5ms'";
/// How long the writer tries to find out what a batch has written, if the database's reply was lost. This is shorter
/// than the five seconds after which the queue returns an error to the callers. No new attempt begins after this time,
/// but the last attempt may take four seconds more.
const RESOLVE: Duration = Duration::from_secs(4);

impl Writer {
    pub(super) async fn write(
        &mut self,
        operations: &[&Operation],
        attempt: Attempt,
        after_lock: bool,
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let locks_first = self.lock_first > 0;
        self.lock_first = self.lock_first.saturating_sub(1);
        let needs_transaction = operations.iter().any(|operation| operation.needs_transaction());
        if needs_transaction || after_lock || locks_first || attempt == Attempt::Locking || self.sessions.are_lent() {
            self.write_locked(operations, after_lock).await
        } else {
            self.write_versions(operations, attempt).await
        }
    }

    /// Loads rows without locking them, plans the batch, and writes each key whose row still has the version that was
    /// loaded.
    async fn write_versions(
        &mut self,
        operations: &[&Operation],
        attempt: Attempt,
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let needs = needs(operations.iter().copied());
        let mut uncached = needs.keys.clone();
        let cached = match attempt {
            Attempt::Optimistic => self.versions.take(&mut uncached, SystemClock.monotonic()),
            Attempt::Reloaded | Attempt::Locking => Vec::new(),
        };
        let reload = (attempt != Attempt::Optimistic).then_some(&needs);
        let (mut session, rows) = self.read(&uncached, cached, reload, wanted(operations)).await?;
        let planned = self.plan(operations, &needs, rows)?;
        let persisted = match timeout(BATCH, persist(&mut session, &planned.writes, false)).await {
            Ok(Ok(persisted)) => {
                self.session = Some(session);
                persisted
            }
            // The server has refused the statement, and the session can be used again.
            Ok(Err(error)) if !matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {
                self.session = Some(session);
                return Err(error);
            }
            // Nothing was written. The state of the session is unknown, so the session is dropped.
            Ok(Err(error @ StoreError::Unavailable { .. })) => return Err(error),
            Ok(Err(_)) | Err(_) => return self.resolved(planned).await,
        };
        Ok(self.publish(planned, &persisted, &uncached))
    }

    /// Locks rows, then reads and writes them.
    async fn write_locked(
        &mut self,
        operations: &[&Operation],
        after_lock: bool,
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let needs = needs(operations.iter().copied());
        for id in &needs.keys {
            self.versions.invalidate(id);
        }
        let mut session = self.begin().await?;
        let work = async {
            if after_lock {
                session.execute(HURRY).await.map_err(store_error)?;
            }
            let mut loaded = Loaded::absent(&needs);
            let mut rows = if operations.iter().any(|operation| operation.needs_transaction()) {
                inbox::lock(&mut session, &needs, &mut loaded).await?;
                request::load(&mut session, &needs, &mut loaded).await?;
                Vec::new()
            } else {
                load::locked_keys(&mut session, &needs.keys).await?
            };
            rows.extend(load::keys(&mut session, &needs.new).await?);
            rows.extend(load::purchases(&mut session, &needs.purchases).await?);
            alias::load(&mut session, &needs, &mut loaded).await?;
            reserve(&mut self.numbers, &mut session, wanted(operations)).await?;
            for row in rows {
                loaded.insert(row);
            }
            let planned = plan(operations.iter().copied(), loaded, &mut self.numbers)?;
            let persisted = if inbox::persist(&mut session, &planned.writes.inbox).await?
                && request::persist(&mut session, &planned.writes.requests).await?
            {
                persist(&mut session, &planned.writes, true).await?
            } else {
                // The list has at least one conflict, so that a batch that writes no key is rolled back too.
                vec![Persisted::Conflict; planned.writes.keys.len().max(1)]
            };
            Ok((planned, persisted))
        };
        match timeout(BATCH, work).await {
            // If an atomic batch has a conflict, nothing of it may be written. It is rolled back, and its operations
            // are tried again.
            Ok(Ok((planned, persisted))) if planned.writes.is_atomic() && persisted.contains(&Persisted::Conflict) => {
                let rolled_back = timeout(BATCH, session.roll_back()).await;
                self.session = rolled_back.ok().and_then(Result::ok).flatten();
                Ok(vec![None; operations.len()])
            }
            Ok(Ok((planned, persisted))) => {
                match timeout(BATCH, session.commit()).await {
                    Ok(Ok(session)) => self.session = session,
                    // It is unknown whether the batch was committed, so the callers get an error. They can safely try
                    // again. An operation of an atomic batch receives a platform event, rotates a key, fetches a
                    // product with a `RequestId`, or issues an imported key. All of these operations are safe to
                    // repeat.
                    Ok(Err(_)) | Err(_) if planned.writes.is_atomic() => {
                        return Err(StoreError::Unknown { source: None });
                    }
                    Ok(Err(_)) | Err(_) => return self.resolved(planned).await,
                }
                // The written rows are not cached. Most batches that lock are of writers that always lock, such as the
                // writer of platform events, and never use cached rows.
                self.versions.keep([], SystemClock.monotonic());
                Ok(planned.answers(|unit| persisted.get(unit) == Some(&Persisted::Written)))
            }
            Ok(Err(error @ StoreError::Unavailable { .. })) => Err(error),
            // Nothing was written, because no COMMIT was sent.
            Ok(Err(StoreError::Unknown { .. })) | Err(_) => {
                Err(StoreError::unavailable("the database does not answer"))
            }
            // The server has refused a statement, so the session can be used again. After any other error the state of
            // the session is unknown, so the session is dropped.
            Ok(Err(error)) => {
                let rolled_back = timeout(BATCH, session.roll_back()).await;
                self.session = rolled_back.ok().and_then(Result::ok).flatten();
                Err(error)
            }
        }
    }

    fn plan(&mut self, operations: &[&Operation], needs: &Needs, rows: Vec<Row>) -> Result<Plan, StoreError> {
        let mut loaded = Loaded::absent(needs);
        for row in rows {
            loaded.insert(row);
        }
        plan(operations.iter().copied(), loaded, &mut self.numbers)
    }

    /// Called after persisting: caches the written rows with their new versions, records the conflicts with other
    /// servers, and returns the answers. The answer is `None` for an operation that must be tried again because its key
    /// was not written.
    fn publish(&mut self, planned: Plan, persisted: &[Persisted], read: &HashSet<KeyId>) -> Vec<Option<Answer>> {
        let is_written = |unit: usize| persisted.get(unit) == Some(&Persisted::Written);
        let (mut written, mut conflicted) = (Vec::new(), Vec::new());
        for (unit, write) in planned.writes.keys.iter().enumerate() {
            let row = write.row.clone();
            if is_written(unit) {
                written.push(Row { version: row.version + 1, may_be_stale: false, ..row });
            } else if write.loaded.is_some() {
                conflicted.push(row);
            }
        }
        for row in conflicted {
            let id = row.key.id();
            if row.may_be_stale {
                self.versions.contended(&id);
            } else if read.contains(&id) {
                self.lock_first = LOCK_FIRST;
            }
        }
        self.versions.keep(written, SystemClock.monotonic());
        planned.answers(is_written)
    }

    /// Reads the rows of `keys`, and returns them together with the rows in `cached`. If `reload` is given, reads
    /// everything that the batch needs instead. Reserves `wanted` row numbers. If a new session has to replace the idle
    /// session, also reads the cached rows again. Returns the session on which the rows were read.
    async fn read(
        &mut self,
        keys: &HashSet<KeyId>,
        cached: Vec<Row>,
        reload: Option<&Needs>,
        wanted: i64,
    ) -> Result<(Session<'static>, Vec<Row>), StoreError> {
        // The connection of an idle session may be broken. A new session then replaces it below.
        if let Some(mut session) = self.session.take() {
            let asked = async {
                if keys.is_empty() && reload.is_none() && !self.versions.is_awake(SystemClock.monotonic()) {
                    session.ping().await.map_err(store_error)?;
                }
                reserve(&mut self.numbers, &mut session, wanted).await?;
                read(&mut session, keys, reload).await
            };
            match timeout(ACQUIRE, asked).await {
                Ok(Ok(rows)) => return Ok((session, rows.into_iter().chain(cached).collect())),
                // The server has answered, so the session can be used again. The error means, for example, that a row
                // cannot be read, or that a table is locked.
                Ok(Err(error)) if !matches!(error, StoreError::Unavailable { .. }) => {
                    self.session = Some(session);
                    return Err(error);
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let mut session = self.connect().await?;
        let keys = keys.iter().copied().chain(cached.iter().map(|row| row.key.id())).collect();
        let asked = async {
            reserve(&mut self.numbers, &mut session, wanted).await?;
            read(&mut session, &keys, reload).await
        };
        let rows =
            timeout(BATCH, asked).await.map_err(|_| StoreError::unavailable("the database does not answer"))??;
        Ok((session, rows))
    }

    /// Finds out what a batch has written, if the database's reply was lost. Returns the answers.
    async fn resolved(&mut self, planned: Plan) -> Result<Vec<Option<Answer>>, StoreError> {
        let until = SystemClock.monotonic() + RESOLVE;
        loop {
            let asked = async {
                let mut session = self.connect().await?;
                let persisted = resolve(&mut session, &planned.writes).await?;
                let session =
                    if session.is_ours() { Some(session) } else { session.commit().await.map_err(store_error)? };
                Ok::<_, StoreError>((session, persisted))
            };
            match timeout(RESOLVE, asked).await {
                Ok(Ok((session, persisted))) => {
                    // `resolve` has incremented the versions of the keys, so the planned rows are not cached.
                    self.session = session;
                    return Ok(planned.answers(|unit| persisted.get(unit) == Some(&Persisted::Written)));
                }
                Ok(Err(error)) if SystemClock.monotonic() >= until || is_lasting(&error) => {
                    return Err(StoreError::unknown(error));
                }
                Err(_) => return Err(StoreError::Unknown { source: None }),
                Ok(Err(_)) => tokio::time::sleep(RECONNECT_DELAY).await,
            }
        }
    }
}

/// Returns the maximum number of row numbers that a batch needs.
fn wanted(operations: &[&Operation]) -> i64 {
    operations.iter().map(|operation| operation.numbers()).sum()
}

/// Makes sure that at least `wanted` numbers are left, taking new blocks as needed.
async fn reserve(numbers: &mut Numbers, session: &mut Session<'_>, wanted: i64) -> Result<(), StoreError> {
    if numbers.left() >= wanted {
        return Ok(());
    }
    if session.is_ours() {
        // Makes the server plan its prepared statements again whenever new numbers are taken. A plan may have been made
        // when a table was almost empty, and the table may have grown since.
        session.execute("DISCARD PLANS").await.map_err(store_error)?;
    }
    while numbers.left() < wanted {
        numbers.extend(next_number(session).await?, BLOCK);
    }
    Ok(())
}

async fn read(
    session: &mut Session<'_>,
    keys: &HashSet<KeyId>,
    reload: Option<&Needs>,
) -> Result<Vec<Row>, StoreError> {
    let Some(needs) = reload else { return load::keys(session, keys).await };
    let mut rows = load::keys(session, needs.keys.iter().chain(&needs.new)).await?;
    rows.extend(load::purchases(session, &needs.purchases).await?);
    Ok(rows)
}

/// Returns whether the database replied with an error that would occur again, for example because it is a read-only
/// standby.
fn is_lasting(error: &StoreError) -> bool {
    !matches!(error, StoreError::Conflict { .. }) && !may_have_happened(error)
}
