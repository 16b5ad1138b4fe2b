//! The writer: plans a batch in memory, writes it in one statement where it can, commits, and only then lets anyone see
//! it.

use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};

use super::checkpoint::Checkpoints;
use super::error::store_error;
use super::lock::Lock;
use super::plan::{Orders, Plan};
use super::view::View;
use super::{fold, letters, ring};
use crate::store::StoreError;
use crate::store::commit::Writer;
use crate::store::operation::{Answer, Operation};
use crate::throttle::Throttle;

/// The one who writes.
pub(super) struct Scribe {
    pub(super) connection: SqliteConnection,
    pub(super) view: Arc<View>,
    /// Number of the newest row.
    pub(super) last_key: i64,
    pub(super) last_use: i64,
    pub(super) last_letter: i64,
    options: SqliteConnectOptions,
    checkpoints: Checkpoints,
    /// Whether the connection is in a state that nobody knows.
    pub(super) lost: bool,
    /// The use up to which a prune has everything folded first.
    pub(super) fold_until: Option<i64>,
    lock: Arc<Lock>,
}

impl Scribe {
    /// Takes over a migrated database: counts the uses that were not folded and knows the newest rows.
    pub(super) async fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        view: Arc<View>,
        lock: Arc<Lock>,
    ) -> Result<Self, StoreError> {
        let (last_key, last_use, last_letter) = (0, 0, 0);
        let (checkpoints, lost, fold_until) = (Checkpoints::default(), false, None);
        let mut scribe =
            Self { connection, view, last_key, last_use, last_letter, options, checkpoints, lost, fold_until, lock };
        match letters::end_leases(&mut scribe.connection).await {
            // What is there can be read: leases then end by themselves.
            Err(StoreError::Full { .. }) => tracing::warn!("no space is left on the disk: nothing can be sold or sent"),
            ended => ended?,
        }
        scribe.recover().await?;
        Ok(scribe)
    }

    /// Takes up work on a new connection: the old one could not even roll back.
    async fn revive(&mut self) -> Result<(), StoreError> {
        self.connection = self.options.connect().await.map_err(store_error)?;
        self.recover().await?;
        self.lost = false;
        tracing::warn!("the database connection was lost and is there again");
        Ok(())
    }

    async fn recover(&mut self) -> Result<(), StoreError> {
        self.connection.execute(include_str!("batch.sql")).await.map_err(store_error)?;
        let (last_key, last_use, last_letter): (i64, i64, i64) = sqlx::query_as(
            "SELECT coalesce((SELECT max(number) FROM delivery_grant), 0), \
                    max(coalesce((SELECT max(number) FROM delivery_use), 0), (SELECT number FROM delivery_fold)), \
                    coalesce((SELECT max(number) FROM delivery_letter), 0)",
        )
        .fetch_one(&mut self.connection)
        .await
        .map_err(store_error)?;
        fold::recover(&mut self.connection, &self.view).await?;
        // After a lost connection, nobody knows whether the last batch was committed: rows tell.
        self.view.keys.clear();
        (self.last_key, self.last_use, self.last_letter) = (last_key, last_use, last_letter);
        Ok(())
    }

    async fn write(&mut self, operations: &[Operation]) -> Result<Vec<Option<Answer>>, StoreError> {
        if self.lost {
            self.revive().await?;
        }
        let written = self.write_on(operations).await;
        if written.is_err() {
            self.lost = !rolled_back(&mut self.connection).await;
        }
        Ok(written?.publish(self))
    }

    async fn write_on(&mut self, operations: &[Operation]) -> Result<Plan, StoreError> {
        let mut may_prune = true;
        for operation in operations {
            if let Operation::Prune { before, from: 0 } = operation {
                may_prune &= fold::make_way(self, *before).await?;
            }
        }
        let refused = if is_lone_order(operations) {
            // As if it were new, without asking: the index of orders refuses one that is not, and nothing has happened then.
            let plan = Plan::of(self, operations, Orders::New).await?;
            match plan.write(&mut self.connection).await {
                Ok(()) => return Ok(plan),
                Err(error) => Some(error),
            }
        } else {
            None
        };
        let mut plan = Plan::of(self, operations, Orders::Known).await?;
        if let Some(error @ (StoreError::Unavailable { .. } | StoreError::Full { .. })) = refused
            && plan.writes()
        {
            // What was there already can be answered all the same.
            return Err(error);
        }
        if plan.writes() && !plan.has_others() {
            plan.write(&mut self.connection).await?;
        } else if plan.writes() {
            self.connection.execute("BEGIN IMMEDIATE").await.map_err(store_error)?;
            plan.write(&mut self.connection).await?;
            self.write_others(operations, &mut plan, may_prune).await?;
            self.connection.execute("COMMIT").await.map_err(store_error)?;
        }
        Ok(plan)
    }

    /// The operations that a plan does not cover: rare, one statement or two each.
    async fn write_others(
        &mut self,
        operations: &[Operation],
        plan: &mut Plan,
        may_prune: bool,
    ) -> Result<(), StoreError> {
        for (index, operation) in operations.iter().enumerate() {
            let connection = &mut self.connection;
            let answer = match operation {
                Operation::Issue(..) | Operation::Change(..) | Operation::Settle(..) => continue,
                Operation::Enroll(fingerprints) => Answer::Enrolled(ring::enroll(connection, fingerprints).await?),
                Operation::Prune { from: 0, .. } if !may_prune => Answer::Pruned(0, Some(0)),
                Operation::Prune { before, from } => {
                    let (pruned, next) = fold::prune(connection, *before, *from).await?;
                    Answer::Pruned(pruned, next)
                }
                Operation::Ping => Answer::Settled,
                Operation::Claim { now, lease_until, limit } => {
                    Answer::Claimed(letters::claim(connection, &self.view, (*now, *lease_until), *limit).await?)
                }
                Operation::Renew(receipts, until) => {
                    letters::renew(connection, receipts, *until).await?;
                    Answer::Settled
                }
                Operation::UnparkAll(route, now) => {
                    Answer::Unparked(letters::unpark_all(connection, *route, *now).await?)
                }
                Operation::Unpark(letter, now) => Answer::Unparked(letters::unpark(connection, *letter, *now).await?),
                Operation::AddProduct(product) => {
                    Answer::Product(super::catalog::add_product(connection, product).await?)
                }
                Operation::AddPost(post) => Answer::Post(super::catalog::add_post(connection, post).await?),
            };
            plan.answer(index, answer);
        }
        Ok(())
    }
}

impl Writer for Scribe {
    type Operation = Operation;
    type Answer = Answer;

    async fn commit(&mut self, operations: &[Operation], _: bool) -> Result<Vec<Option<Answer>>, StoreError> {
        static FAILED: Throttle = Throttle::new();
        let written = self.write(operations).await;
        if let Err(error) = &written
            && let Some(more) = FAILED.admit()
        {
            tracing::error!(error = error as &dyn std::error::Error, more, "nothing of a batch was committed");
        }
        written
    }

    /// Nobody else writes.
    fn is_held(&self, _: &Operation, _: bool) -> bool {
        false
    }

    fn hold(&mut self, _: &Operation) {}

    async fn upkeep(&mut self) {
        static NOT_FOLDED: Throttle = Throttle::new();
        static NOT_COPIED: Throttle = Throttle::new();
        if self.lost {
            return;
        }
        if let Err(error) = fold::keep_up(self, fold::AT).await
            && let Some(more) = NOT_FOLDED.admit()
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                more,
                "uses are not folded yet; will be tried again"
            );
        }
        let beside = (&self.options, &self.lock);
        if !self.lost
            && let Err(error) = self.checkpoints.keep_up(&mut self.connection, beside).await
            && let Some(more) = NOT_COPIED.admit()
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                more,
                "the write-ahead log grows; will be tried again"
            );
        }
    }

    async fn finish(mut self) {
        if let Err(error) = self.checkpoints.end().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the write-ahead log is not copied yet");
        }
        if !self.lost
            && let Err(error) = fold::all(&mut self).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "uses are folded at the next start");
        }
        if let Err(error) = self.connection.close().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the database was not closed in order");
        }
    }
}

/// Whether a batch has one order, and nothing that its statement does not cover. Among more, a single one that is there
/// already would have all of them planned twice.
fn is_lone_order(operations: &[Operation]) -> bool {
    let covered = |it: &Operation| matches!(it, Operation::Issue(..) | Operation::Change(..) | Operation::Settle(..));
    operations.iter().filter_map(Operation::order).count() == 1 && operations.iter().all(covered)
}

/// Makes sure that no transaction is open. SQLite may have rolled back already (disk full), and says so.
pub(super) async fn rolled_back(connection: &mut SqliteConnection) -> bool {
    match connection.execute("ROLLBACK").await {
        Ok(_) => true,
        Err(error) => {
            error.as_database_error().is_some_and(|error| error.message().contains("no transaction is active"))
        }
    }
}

/// Rows for one statement, as a JSON array of arrays.
pub(super) fn json(rows: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::corrupt_because("rows that are no JSON", error))
}

#[cfg(test)]
mod tests;
