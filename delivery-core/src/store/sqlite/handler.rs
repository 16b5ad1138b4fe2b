//! Committing a batch: the [`Writer`] loads the rows that the batch needs, plans the batch, persists the planned rows,
//! and then publishes them to the caches.

use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};

use super::cache::Cache;
use super::checkpoint::Checkpoints;
use super::error::store_error;
use super::flush;
use super::lock::Lock;
use super::pending::Count;
use super::persist::persist;
use super::writer::{Pass, Writer, rolled_back};
use super::{alias, inbox, load, messages, request};
use crate::ledger::operation::{Answer, Operation, Plan, Subject, needs, plan};
use crate::ledger::plan::{Loaded, Needs, Numbers, Writes};
use crate::store::batch::BatchHandler;
use crate::store::sql::{Done, Work};
use crate::store::{Attempt, StoreError};
use crate::throttle::log_seldom;

impl Writer {
    /// Starts a writer on a migrated database.
    pub(super) async fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        cache: Arc<Cache>,
        lock: Arc<Lock>,
    ) -> Result<Self, StoreError> {
        let (newest, reserved, pass, is_lost) = (0, 0, Pass::default(), false);
        let checkpoints = Checkpoints::default();
        let mut writer = Self { connection, cache, newest, reserved, pass, is_lost, options, checkpoints, lock };
        match messages::end_leases(&mut writer.connection).await {
            // The leases cannot be ended while the disk is full, so they expire at their normal time. The store starts
            // nevertheless, because it can still be read.
            Err(StoreError::Full { .. }) => tracing::warn!("no space is left on the disk: nothing can be sold or sent"),
            ended => ended?,
        }
        writer.recover().await?;
        Ok(writer)
    }

    /// Continues on a new connection, because the state of the old one is unknown.
    async fn reconnect(&mut self) -> Result<(), StoreError> {
        self.connection = self.options.connect().await.map_err(store_error)?;
        self.recover().await?;
        self.is_lost = false;
        tracing::warn!("the database connection was lost and has recovered");
        Ok(())
    }

    async fn recover(&mut self) -> Result<(), StoreError> {
        // No row has a number above `reserved`.
        const NEWEST: &str = "SELECT reserved FROM delivery_watermark";
        self.connection.execute(include_str!("batch.sql")).await.map_err(store_error)?;
        self.newest = sqlx::query_scalar(NEWEST).fetch_one(&mut self.connection).await.map_err(store_error)?;
        self.reserved = self.newest;
        self.pass = flush::recover(&mut self.connection, &self.cache).await?;
        // After a lost connection it is unknown whether the last batch was committed, so cached rows are dropped.
        self.cache.keys.clear();
        self.cache.products.clear();
        Ok(())
    }

    async fn write(&mut self, operations: &[&Operation]) -> Result<Vec<Option<Answer>>, StoreError> {
        let needs = needs(operations.iter().copied());
        let wanted = operations.iter().map(|operation| operation.numbers()).sum();
        let mut numbers = Numbers::block(self.newest + 1, wanted);
        // If the batch has a single order, this assumes that the order is new, without looking it up. If the order
        // already has a key, the batch violates the primary key of the table of purchases, and nothing is written. The
        // batch is then planned again below, after the existing purchase was loaded. An imported order with an alias is
        // always looked up, because its alias would be refused if the order already has a key.
        let mut refused = None;
        if needs.purchases.len() == 1 && needs.aliases.is_empty() {
            let planned = self.plan(operations, &needs, false, &mut numbers).await?;
            match self.persist(&planned.writes, wanted).await {
                Ok(()) => return Ok(self.publish(planned, numbers.newest())),
                Err(error) if self.is_lost => return Err(error),
                Err(error) => refused = Some(error),
            }
            numbers = Numbers::block(self.newest + 1, wanted);
        }
        let planned = self.plan(operations, &needs, true, &mut numbers).await?;
        match refused {
            // The database cannot write at the moment. This is an error only if the new plan has something to write. If
            // the order already has a key, for example, the plan may have nothing to write.
            Some(error @ (StoreError::Unavailable { .. } | StoreError::Full { .. })) if !planned.writes.is_empty() => {
                return Err(error);
            }
            _ => {}
        }
        self.persist(&planned.writes, wanted).await?;
        Ok(self.publish(planned, numbers.newest()))
    }

    /// Plans the operations with rows from the cache or, if they are not cached, from the file. Loads the existing
    /// purchases only if `purchases` is true.
    async fn plan(
        &mut self,
        operations: &[&Operation],
        needs: &Needs,
        purchases: bool,
        numbers: &mut Numbers,
    ) -> Result<Plan, StoreError> {
        let (mut loaded, mut missing) = (Loaded::absent(needs), Vec::new());
        // A sale that was made by hand has no order, and so no row in the table of purchases. Its key is looked up by
        // id instead. If the key exists, an earlier attempt has already made the sale.
        let by_hand = operations.iter().filter_map(|operation| match operation.subject() {
            Subject::NewKey(new) if new.order.is_none() => Some(&new.id),
            _ => None,
        });
        for id in needs.keys.iter().chain(by_hand) {
            match self.cache.keys.get(id) {
                Some(row) => loaded.insert(row),
                None => missing.push(*id),
            }
        }
        for row in load::keys(&mut self.connection, &self.cache, &missing).await? {
            loaded.insert(row);
        }
        if purchases {
            for row in load::purchases(&mut self.connection, &self.cache, &needs.purchases).await? {
                loaded.insert(self.cache.current(row));
            }
        }
        if operations.iter().any(|operation| operation.needs_transaction()) {
            inbox::load(&mut self.connection, needs, &mut loaded).await?;
            request::load(&mut self.connection, needs, &mut loaded).await?;
            alias::load(&mut self.connection, needs, &mut loaded).await?;
            self.follow(&mut loaded).await?;
        }
        plan(operations.iter().copied(), loaded, numbers)
    }

    /// Loads the rows to which the loaded rows refer, then the rows to which those rows refer, until no row is missing.
    async fn follow(&mut self, loaded: &mut Loaded) -> Result<(), StoreError> {
        loop {
            let missing = loaded.missing();
            if missing.is_empty() {
                return Ok(());
            }
            loaded.expect(&missing);
            let (cached, uncached): (Vec<_>, Vec<_>) =
                missing.keys.iter().map(|id| (id, self.cache.keys.get(id))).partition(|(_, row)| row.is_some());
            let uncached: Vec<_> = uncached.into_iter().map(|(id, _)| *id).collect();
            let read = load::keys(&mut self.connection, &self.cache, &uncached).await?;
            for row in cached.into_iter().filter_map(|(_, row)| row).chain(read) {
                loaded.insert(row);
            }
            inbox::load(&mut self.connection, &missing, loaded).await?;
        }
    }

    /// Persists `writes`, which use at most `numbers` row numbers.
    async fn persist(&mut self, writes: &Writes, numbers: i64) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.reserve(numbers).await?;
        let Err(error) = persist(&mut self.connection, writes).await else { return Ok(()) };
        if rolled_back(&mut self.connection).await {
            return Err(error);
        }
        self.is_lost = true;
        Err(StoreError::unknown(error))
    }

    /// Called after the commit: publishes the writes to the caches, and returns the answers.
    fn publish(&mut self, planned: Plan, newest: i64) -> Vec<Option<Answer>> {
        self.newest = newest;
        let Writes { keys, uses, .. } = &planned.writes;
        // Uses are in the order of their numbers, so a key's newest count is inserted last and replaces its older ones.
        let count = |used: u64, last_use| Count { used, last_use };
        self.cache.pending.extend(uses.iter().map(|used| (used.key, count(used.used, used.number))));
        self.pass.pace(uses.len());
        for write in keys {
            self.cache.keys.insert(write.row.key.id(), write.row.clone());
        }
        planned.answers(|_| true)
    }
}

impl BatchHandler for Writer {
    type Operation = Work<Self>;
    type Answer = Result<Done, StoreError>;

    const WRITES: bool = true;

    fn is_alone(work: &Work<Self>) -> bool {
        matches!(work, Work::Statement(_))
    }

    async fn commit(
        &mut self,
        work: &[Work<Self>],
        _: Attempt,
        _: bool,
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        if self.is_lost {
            self.reconnect().await?;
        }
        // Each statement is a batch of its own (see `is_alone`), so any other batch has only operations.
        if let [Work::Statement(statement)] = work {
            let ran = statement.run(self).await;
            if ran.is_err() {
                self.is_lost |= !rolled_back(&mut self.connection).await;
                // SQLite may have ended the transaction by itself. The driver does not notice this, and treats the
                // transaction as still open. Such a connection cannot be used again.
                self.is_lost |= self.connection.is_in_transaction();
            }
            return Ok(vec![Some(ran)]);
        }
        let operations: Vec<&Operation> = work.iter().filter_map(Work::operation).collect();
        let written = self.write(&operations).await;
        match &written {
            // Not logged, because the ledger refuses a key whose id or alias another key has. The caller reports it.
            Err(StoreError::Refused { source: None }) | Ok(_) => {}
            Err(error) => log_seldom!(error, error = error, "nothing of a batch was committed"),
        }
        Ok(written?.into_iter().map(|answer| answer.map(|answer| Ok(Done::Answer(answer)))).collect())
    }

    async fn maintain(&mut self) {
        if self.is_lost {
            return;
        }
        if let Err(error) = flush::maintain(self, flush::PASS_THRESHOLD).await {
            log_seldom!(warn, error = &error, "counts are not flushed yet; will be tried again");
        }
        let second_connection = (&self.options, &self.lock);
        if let Err(error) = self.checkpoints.maintain(&mut self.connection, second_connection).await {
            log_seldom!(warn, error = &error, "the write-ahead log grows; will be tried again");
        }
    }

    /// Makes the next batch reconnect and recover from the file. Until then readers read the file, not the cache.
    fn restart(&mut self) {
        self.is_lost = true;
        self.cache.keys.clear();
        self.cache.products.clear();
    }

    async fn finish(mut self) {
        if let Err(error) = self.checkpoints.end().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the write-ahead log is not copied yet");
        }
        if !self.is_lost
            && let Err(error) = flush::all(&mut self).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "counts are flushed at the next start");
        }
        if let Err(error) = self.connection.close().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the database was not closed in order");
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
