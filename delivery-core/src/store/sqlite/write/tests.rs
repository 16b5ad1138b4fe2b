//! What a batch does, and what it leaves when it cannot be written.

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
    crate::store::sqlite::open::migrate(&mut connection).await.unwrap();
    let lock = Arc::new(Lock::take(tempfile::NamedTempFile::new().unwrap().path()).unwrap());
    let mut scribe = Scribe::start(connection, options, Arc::new(View::new()), lock).await.unwrap();
    scribe.commit(&[key(0), spend(0)], false).await.unwrap();
    // SQLite answers a file at its page limit like a full disk: SQLITE_FULL.
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut scribe.connection).await.unwrap();
    let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
    sqlx::query(limit).execute(&mut scribe.connection).await.unwrap();

    let mut committed = 1;
    let error = loop {
        match scribe.commit(&[key(committed), spend(0)], false).await {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("no space"), "{error}");
    let used = |scribe: &Scribe| scribe.view.keys.get(&KeyId::from_bytes([0; 16])).unwrap().key.used();
    let before = used(&scribe);
    assert!(scribe.commit(&[key(committed), spend(0)], false).await.is_err());
    assert_eq!(used(&scribe), before, "what was not committed is not seen");

    sqlx::query("PRAGMA max_page_count = 1000000").execute(&mut scribe.connection).await.unwrap();
    scribe.commit(&[key(committed), spend(0)], false).await.unwrap();
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
        crate::store::sqlite::open::migrate(&mut connection).await.unwrap();
        let lock = Arc::new(Lock::take(tempfile::NamedTempFile::new().unwrap().path()).unwrap());
        Scribe::start(connection, options, Arc::new(View::new()), lock).await.unwrap()
    };
    let mut scribe = start(options.clone()).await;
    scribe.commit(&[key(1), key(2)], false).await.unwrap();
    scribe.commit(&[spend(1)], false).await.unwrap();
    let prune = Operation::Prune { before: DateTime::from_timestamp(1, 0).unwrap(), from: 0 };
    scribe.commit(&[spend(1), prune, spend(2)], false).await.unwrap();
    drop(scribe);
    let mut scribe = start(options).await;
    let ids = [1, 2].map(|number: u128| KeyId::from_bytes(number.to_be_bytes()));
    let found = crate::store::sqlite::find::load(&mut scribe.connection, &scribe.view, &ids).await.unwrap();
    assert_eq!(ids.map(|id| found[&id].key.used()), [2, 1]);
}

fn order(number: u128, id: &str) -> Operation {
    let Operation::Issue(key, _) = key(number) else { unreachable!() };
    let reference = crate::order::OrderRef { source: crate::order::Source::webhook(), id: id.parse().unwrap() };
    let letter = crate::store::MessageId::new(format!("{number}@example.com")).unwrap();
    Operation::Issue(Arc::new(key.as_ref().clone().bought_with(reference)), Some(letter))
}

/// Which key each issue came to, and whether that was new.
fn issued(answers: &[Option<Answer>]) -> Vec<(u128, bool)> {
    let issued = answers.iter().filter_map(|answer| match answer {
        Some(Answer::Issued(issue)) => {
            Some((issue.clone().into_key().id().as_u128(), matches!(issue, crate::store::Issue::New(_))))
        }
        _ => None,
    });
    issued.collect()
}

#[tokio::test]
async fn a_lone_order_that_is_there_already_takes_nothing_of_its_batch_along() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("x.db")).create_if_missing(true);
    let start = async || {
        let mut connection = options.connect().await.unwrap();
        crate::store::sqlite::open::migrate(&mut connection).await.unwrap();
        let lock = Arc::new(Lock::take(tempfile::NamedTempFile::new().unwrap().path()).unwrap());
        Scribe::start(connection, options.clone(), Arc::new(View::new()), lock).await.unwrap()
    };
    let mut scribe = start().await;
    for (batch, expected) in [
        (vec![order(1, "A")], vec![(1, true)]),
        (vec![order(2, "A")], vec![(1, false)]),
        (vec![spend(1), order(3, "A"), spend(1)], vec![(1, false)]),
        (vec![order(4, "B"), spend(1)], vec![(4, true)]),
        (vec![order(5, "A"), Operation::Ping], vec![(1, false)]),
        (vec![order(6, "C"), Operation::Ping, spend(4)], vec![(6, true)]),
        (vec![order(7, "A"), order(8, "D")], vec![(1, false), (8, true)]),
    ] {
        let answers = scribe.commit(&batch, false).await.unwrap();
        assert_eq!((answers.len(), issued(&answers), scribe.lost), (batch.len(), expected, false));
    }
    let newest = |scribe: &Scribe| (scribe.last_key, scribe.last_use, scribe.last_letter);
    let used = async |scribe: &mut Scribe| {
        let ids = [1, 4, 6, 8].map(|number: u128| KeyId::from_bytes(number.to_be_bytes()));
        let found = crate::store::sqlite::find::load(&mut scribe.connection, &scribe.view, &ids).await.unwrap();
        ids.map(|id| found[&id].key.used())
    };
    assert_eq!((newest(&scribe), used(&mut scribe).await), ((4, 4, 4), [3, 1, 0, 0]));
    drop(scribe);
    let mut scribe = start().await;
    assert_eq!((newest(&scribe), used(&mut scribe).await), ((4, 4, 4), [3, 1, 0, 0]));
}

#[tokio::test]
async fn a_lone_order_that_is_there_already_is_answered_while_nothing_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("x.db")).create_if_missing(true);
    let options = options.busy_timeout(std::time::Duration::ZERO);
    let mut connection = options.connect().await.unwrap();
    crate::store::sqlite::open::migrate(&mut connection).await.unwrap();
    let lock = Arc::new(Lock::take(tempfile::NamedTempFile::new().unwrap().path()).unwrap());
    let mut scribe = Scribe::start(connection, options.clone(), Arc::new(View::new()), lock).await.unwrap();
    scribe.commit(&[order(1, "A")], false).await.unwrap();
    let mut another = options.connect().await.unwrap();
    another.execute("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(issued(&scribe.commit(&[order(2, "A")], false).await.unwrap()), [(1, false)]);
    assert!(matches!(scribe.commit(&[order(3, "B")], false).await, Err(StoreError::Unavailable { .. })));
    another.execute("ROLLBACK").await.unwrap();
    assert_eq!(issued(&scribe.commit(&[order(3, "B")], false).await.unwrap()), [(3, true)]);
}

#[tokio::test]
async fn one_operation_that_the_database_refuses_takes_no_other_down() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(crate::store::sqlite::SqliteStore::open(folder.path().join("x.db")).await.unwrap());
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
