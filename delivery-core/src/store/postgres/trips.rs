//! How a batch is attempted: loaded, planned and persisted, on as many trips as the [`Attempt`] needs.
//!
//! | attempt | rows | written |
//! |---|---|---|
//! | optimistic | from the version cache; purchases are assumed absent | if the versions are the same |
//! | reloaded | read | if the versions are the same |
//! | locking | locked, then read, in a transaction | always, except a purchase that was made in the meantime |
//!
//! On the host application's connections every attempt is locking. Keys are also locked first, whatever the attempt,
//! after a batch met a lock and while another server writes the same keys.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::{Connection, Executor};
use tokio::time::timeout;

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

/// Number of batches that lock keys first, after another server wrote a key between its read and its write here.
const LOCK_FIRST: u32 = 64;
/// After a batch met a lock, it is tried in parts, and each part waits for the same lock no longer than this.
const HURRY: &str = "SET LOCAL lock_timeout = '5ms'";
/// How long to find out what became of a batch whose answer was lost. Callers are refused after five seconds.
const RESOLVE: Duration = Duration::from_secs(4);

impl Writer {
    pub(super) async fn write(
        &mut self,
        operations: &[&Operation],
        attempt: Attempt,
        after_lock: bool,
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        self.lock_first = self.lock_first.saturating_sub(1);
        let needs_transaction = operations.iter().any(|operation| operation.needs_transaction());
        if needs_transaction
            || after_lock
            || self.lock_first > 0
            || attempt == Attempt::Locking
            || self.sessions.are_lent()
        {
            self.write_locked(operations, after_lock).await
        } else {
            self.write_versions(operations, attempt).await
        }
    }

    /// Writes rows that still have the versions that the plan began with.
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
            // Nothing was written. The state of the session is unknown, so it is dropped.
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
                inbox::lock(&mut session, &needs, &mut loaded, &mut self.versions).await?;
                request::load(&mut session, &needs, &mut loaded).await?;
                Vec::new()
            } else {
                load::locked_keys(&mut session, &needs.keys).await?
            };
            rows.extend(load::keys(&mut session, &needs.new).await?);
            rows.extend(load::purchases(&mut session, &needs.purchases).await?);
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
                vec![Persisted::Conflict; planned.writes.keys.len().max(1)]
            };
            Ok((planned, persisted))
        };
        match timeout(BATCH, work).await {
            // An atomic batch with a conflict is rolled back, and written with the next attempt.
            Ok(Ok((planned, persisted))) if planned.writes.is_atomic() && persisted.contains(&Persisted::Conflict) => {
                let rolled_back = timeout(BATCH, session.roll_back()).await;
                self.session = rolled_back.ok().and_then(Result::ok).flatten();
                Ok(vec![None; operations.len()])
            }
            Ok(Ok((planned, persisted))) => {
                match timeout(BATCH, session.commit()).await {
                    Ok(Ok(session)) => self.session = session,
                    // Receiving an event, rotating a key and making a request again are safe to repeat.
                    Ok(Err(_)) | Err(_) if planned.writes.is_atomic() => {
                        return Err(StoreError::Unknown { source: None });
                    }
                    Ok(Err(_)) | Err(_) => return self.resolved(planned).await,
                }
                Ok(self.publish(planned, &persisted, &needs.keys))
            }
            // A refused statement leaves the session usable; after any other error the state of the session is unknown.
            Ok(Err(error)) => {
                if !matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. }) {
                    let rolled_back = timeout(BATCH, session.roll_back()).await;
                    self.session = rolled_back.ok().and_then(Result::ok).flatten();
                    return Err(error);
                }
                // Without a COMMIT nothing was written.
                Err(StoreError::unavailable("the database does not answer"))
            }
            Err(_) => Err(StoreError::unavailable("the database does not answer")),
        }
    }

    fn plan(&mut self, operations: &[&Operation], needs: &Needs, rows: Vec<Row>) -> Result<Plan, StoreError> {
        let mut loaded = Loaded::absent(needs);
        for row in rows {
            loaded.insert(row);
        }
        plan(operations.iter().copied(), loaded, &mut self.numbers)
    }

    /// Returns the answers of what was persisted, and caches the rows with their new versions.
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

    /// Reads `keys` in addition to the `cached` rows and, with `reload`, everything else that the batch needs. Reserves
    /// `wanted` row numbers. On a new session the cached rows are read too.
    async fn read(
        &mut self,
        keys: &HashSet<KeyId>,
        cached: Vec<Row>,
        reload: Option<&Needs>,
        wanted: i64,
    ) -> Result<(Session<'static>, Vec<Row>), StoreError> {
        // An idle session may have been cut off: it is then replaced by a new one.
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
                // The session is fine, but a row cannot be read or a table is locked.
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

    /// Finds out what a batch whose answer was lost has written, and returns the answers.
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
                    // The versions were incremented, so nothing of this is cached.
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

/// Returns how many row numbers a batch needs at most.
fn wanted(operations: &[&Operation]) -> i64 {
    operations.iter().map(|operation| operation.numbers()).sum()
}

/// Makes sure that at least `wanted` numbers are left, taking new blocks as needed.
async fn reserve(numbers: &mut Numbers, session: &mut Session<'_>, wanted: i64) -> Result<(), StoreError> {
    if numbers.left() >= wanted {
        return Ok(());
    }
    if session.is_ours() {
        // Has plans made anew now and then: a table of three rows may have grown since.
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

/// Returns whether the database replied with an error that does not pass, for example as a read-only standby.
fn is_lasting(error: &StoreError) -> bool {
    !matches!(error, StoreError::Conflict { .. }) && !may_have_happened(error)
}
