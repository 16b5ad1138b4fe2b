//! The writer: plans a batch in memory, writes it in one statement where it can, commits, and only then lets anyone see
//! it.

use std::fs::File;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};

use super::checkpoint::Checkpoints;
use super::error::store_error;
use super::plan::Plan;
use super::view::View;
use super::{fold, letters, ring};
use crate::store::StoreError;
use crate::store::commit::Writer;
use crate::store::operation::{Answer, Operation};

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
    lock: Arc<File>,
}

impl Scribe {
    /// Takes over a migrated database: counts the uses that were not folded and knows the newest rows.
    pub(super) async fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        view: Arc<View>,
        lock: Arc<File>,
    ) -> Result<Self, StoreError> {
        let (last_key, last_use, last_letter) = (0, 0, 0);
        let (checkpoints, lost, fold_until) = (Checkpoints::default(), false, None);
        let mut scribe =
            Self { connection, view, last_key, last_use, last_letter, options, checkpoints, lost, fold_until, lock };
        letters::end_leases(&mut scribe.connection).await?;
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

    async fn write(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, StoreError> {
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
        let mut plan = Plan::of(self, operations).await?;
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

    async fn commit(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, StoreError> {
        let written = self.write(operations).await;
        if let Err(error) = &written {
            tracing::error!(error = error as &dyn std::error::Error, "nothing of a batch was committed");
        }
        written
    }

    async fn upkeep(&mut self) {
        if self.lost {
            return;
        }
        if let Err(error) = fold::keep_up(self, fold::AT).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "uses are not folded yet; will be tried again");
        }
        let beside = (&self.options, &self.lock);
        if !self.lost
            && let Err(error) = self.checkpoints.keep_up(&mut self.connection, beside).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "the write-ahead log grows; will be tried again");
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
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::key::{Change, KeyId, NewKey, RingVersion};
    use crate::terms::{Terms, Validity};

    fn key(number: u128) -> Operation {
        let identity = (KeyId::from_bytes(number.to_be_bytes()), RingVersion::from_stored(1));
        let terms = Terms { validity: Validity::Never, ..Terms::default() };
        let (product, email) = (crate::product::ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
        Operation::Issue(Arc::new(NewKey::on_terms(identity, product, email, terms, DateTime::UNIX_EPOCH)), None)
    }

    fn spend(number: u128) -> Operation {
        let product = crate::product::ProductId::new(1).unwrap();
        Operation::Change(KeyId::from_bytes(number.to_be_bytes()), Change::Use { product, at: DateTime::UNIX_EPOCH })
    }

    #[tokio::test]
    async fn a_full_disk_is_unavailable_loses_nothing_and_heals() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("full.db")).create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        super::super::open::migrate(&mut connection).await.unwrap();
        let lock = Arc::new(tempfile::tempfile().unwrap());
        let mut scribe = Scribe::start(connection, options, Arc::new(View::new()), lock).await.unwrap();
        scribe.commit(&[key(0), spend(0)]).await.unwrap();
        // SQLite answers a file at its page limit like a full disk: SQLITE_FULL.
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut scribe.connection).await.unwrap();
        let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(limit).execute(&mut scribe.connection).await.unwrap();

        let mut committed = 1;
        let error = loop {
            match scribe.commit(&[key(committed), spend(0)]).await {
                Ok(_) => committed += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("no space"), "{error}");
        let used = |scribe: &Scribe| scribe.view.keys.get(&KeyId::from_bytes([0; 16])).unwrap().key.used();
        let before = used(&scribe);
        assert!(scribe.commit(&[key(committed), spend(0)]).await.is_err());
        assert_eq!(used(&scribe), before, "what was not committed is not seen");

        sqlx::query("PRAGMA max_page_count = 1000000").execute(&mut scribe.connection).await.unwrap();
        scribe.commit(&[key(committed), spend(0)]).await.unwrap();
        assert_eq!(used(&scribe), before + 1);
        let keys: i64 =
            sqlx::query_scalar("SELECT count(*) FROM delivery_grant").fetch_one(&mut scribe.connection).await.unwrap();
        assert_eq!(u128::try_from(keys).unwrap(), committed + 1);
    }

    #[tokio::test]
    async fn a_use_that_shares_its_commit_with_a_prune_is_still_counted_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let start = async |options: SqliteConnectOptions| {
            let mut connection = options.connect().await.unwrap();
            super::super::open::migrate(&mut connection).await.unwrap();
            let lock = Arc::new(tempfile::tempfile().unwrap());
            Scribe::start(connection, options, Arc::new(View::new()), lock).await.unwrap()
        };
        let mut scribe = start(options.clone()).await;
        scribe.commit(&[key(1), key(2)]).await.unwrap();
        scribe.commit(&[spend(1)]).await.unwrap();
        let prune = Operation::Prune { before: DateTime::from_timestamp(1, 0).unwrap(), from: 0 };
        scribe.commit(&[spend(1), prune, spend(2)]).await.unwrap();
        drop(scribe);
        let mut scribe = start(options).await;
        let ids = [1, 2].map(|number: u128| KeyId::from_bytes(number.to_be_bytes()));
        let found = super::super::find::load(&mut scribe.connection, &scribe.view, &ids).await.unwrap();
        assert_eq!(ids.map(|id| found[&id].key.used()), [2, 1]);
    }

    #[tokio::test]
    async fn one_operation_that_the_database_refuses_takes_no_other_down() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(super::super::SqliteStore::open(folder.path().join("x.db")).await.unwrap());
        let issue = |number: u128| {
            let Operation::Issue(key, _) = key(number) else { unreachable!() };
            let store = store.clone();
            async move { crate::store::Ledger::issue(store.as_ref(), key.as_ref().clone(), None).await }
        };
        issue(1).await.unwrap();
        // The same id again breaks a unique index; its neighbours in the batch are committed all the same.
        let (one, twice, two) = tokio::join!(issue(2), issue(1), issue(3));
        assert!(one.is_ok() && two.is_ok());
        assert!(matches!(twice, Err(StoreError::Corrupt { .. })));
    }
}
