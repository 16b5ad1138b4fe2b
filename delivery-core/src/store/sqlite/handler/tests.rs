//! Tests of committing a batch: its effects, and the state after a batch that could not be written.

use std::path::Path;

use chrono::DateTime;
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};

use super::*;
use crate::key::KeyId;
use crate::key::{Change, NewKey, SecretVersion};
use crate::ledger::{ChangeKey, Issue, MessageId, NewSale, Notice};
use crate::store::Ledger;
use crate::terms::{Terms, Validity};

fn id(number: u128) -> KeyId {
    KeyId::from_bytes(number.to_be_bytes())
}

fn new_key(number: u128) -> NewKey {
    let terms = Terms { validity: Validity::Never, ..Terms::default() };
    let (product, email) = (crate::product::ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
    NewKey::on_terms((id(number), SecretVersion::from_stored(1)), product, email, terms, DateTime::UNIX_EPOCH)
}

fn key(number: u128) -> Work<Writer> {
    Work::Operation(Operation::Issue(Box::new(NewSale::new(new_key(number), Vec::new()))))
}

fn order(number: u128, order: &str) -> Work<Writer> {
    let reference = crate::order::OrderRef { source: crate::order::Source::webhook(), id: order.parse().unwrap() };
    let message = Notice::purchase(MessageId::new(format!("{number}@example.com")).unwrap());
    let key = new_key(number).bought_with(reference);
    Work::Operation(Operation::Issue(Box::new(NewSale::new(key, vec![message]))))
}

fn change(number: u128, change: Change) -> Work<Writer> {
    Work::Operation(Operation::Change(ChangeKey { key: id(number), change, messages: Vec::new() }))
}

fn spend(number: u128) -> Work<Writer> {
    let product = crate::product::ProductId::new(1).unwrap();
    change(number, Change::use_of(product, DateTime::UNIX_EPOCH))
}

pub(in crate::store::sqlite) async fn start(path: &Path) -> Writer {
    // With a log, as the store opens its file, so that readers and the writer do not shut each other out.
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    start_with(options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Off)).await
}

async fn start_with(options: SqliteConnectOptions) -> Writer {
    let mut connection = options.connect().await.unwrap();
    crate::store::sqlite::open::migrate(&mut connection).await.unwrap();
    let lock = Arc::new(Lock::take(tempfile::NamedTempFile::new().unwrap().path()).await.unwrap());
    Writer::start(connection, options, Arc::new(Cache::new()), lock).await.unwrap()
}

async fn commit(writer: &mut Writer, work: &[Work<Writer>]) -> Result<Vec<Answer>, StoreError> {
    let answers = writer.commit(work, Attempt::Optimistic, false).await?;
    assert_eq!(answers.len(), work.len());
    let answers = answers.into_iter().map(|answer| match answer.expect("everything is applied at once")? {
        Done::Answer(answer) => Ok(answer),
        Done::Returned(_) => panic!("no statement was submitted"),
    });
    answers.collect()
}

fn issued(answer: Option<&Answer>) -> Issue {
    let Some(Answer::Issued(issue)) = answer else { panic!("an order is answered with its key") };
    issue.clone()
}

async fn used<const N: usize>(writer: &mut Writer, numbers: [u128; N]) -> [u64; N] {
    let found = load::keys(&mut writer.connection, &writer.cache, &numbers.map(id)).await.unwrap();
    numbers.map(|number| found.iter().find(|row| row.key.id() == id(number)).unwrap().key.used())
}

#[tokio::test]
async fn a_full_disk_is_unavailable_loses_nothing_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = start(&folder.path().join("full.db")).await;
    commit(&mut writer, &[key(0), spend(0)]).await.unwrap();
    // At its page limit SQLite reports the same error as on a full disk: SQLITE_FULL.
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut writer.connection).await.unwrap();
    let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
    sqlx::query(limit).execute(&mut writer.connection).await.unwrap();

    let mut committed = 1;
    let error = loop {
        match commit(&mut writer, &[key(committed), spend(0)]).await {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("no space"), "{error}");
    let cached = |writer: &Writer| writer.cache.keys.get(&id(0)).unwrap().key.used();
    let before = cached(&writer);
    assert!(commit(&mut writer, &[key(committed), spend(0)]).await.is_err());
    assert_eq!(cached(&writer), before, "what was not committed is not seen");

    sqlx::query("PRAGMA max_page_count = 1000000").execute(&mut writer.connection).await.unwrap();
    commit(&mut writer, &[key(committed), spend(0)]).await.unwrap();
    assert_eq!(cached(&writer), before + 1);
    let keys: i64 =
        sqlx::query_scalar("SELECT count(*) FROM delivery_key").fetch_one(&mut writer.connection).await.unwrap();
    assert_eq!(u128::try_from(keys).unwrap(), committed + 1);
}

#[tokio::test]
async fn a_single_order_that_is_there_already_takes_nothing_of_its_batch_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let mut writer = start(&path).await;
    // For each batch: its orders, its uses, and for each order the number of its key and whether the key is new.
    for (orders, uses, expected) in [
        (vec![(1, "A")], vec![], vec![(1, true)]),
        (vec![(2, "A")], vec![], vec![(1, false)]),
        (vec![(3, "A")], vec![1, 1], vec![(1, false)]),
        (vec![(4, "B")], vec![1], vec![(4, true)]),
        (vec![(6, "C")], vec![4], vec![(6, true)]),
        (vec![(7, "A"), (8, "D")], vec![], vec![(1, false), (8, true)]),
        (vec![(9, "E"), (10, "E")], vec![9], vec![(9, true), (9, false)]),
    ] {
        let most = orders.len();
        let orders = orders.into_iter().map(|(number, name)| order(number, name));
        let work: Vec<_> = orders.chain(uses.into_iter().map(spend)).collect();
        let answers = commit(&mut writer, &work).await.unwrap();
        let issued = answers.iter().take(most).map(|answer| issued(Some(answer)));
        let issued: Vec<_> =
            issued.map(|issue| (issue.clone().into_key().id().as_u128(), matches!(issue, Issue::New(_)))).collect();
        assert_eq!((issued, writer.is_lost), (expected, false));
    }
    let (newest, expected) = (writer.newest, [3, 1, 0, 0, 1]);
    assert_eq!(used(&mut writer, [1, 4, 6, 8, 9]).await, expected);
    drop(writer);
    let mut writer = start(&path).await;
    assert!(writer.newest >= newest, "no number is given away twice");
    assert_eq!(used(&mut writer, [1, 4, 6, 8, 9]).await, expected);
}

#[tokio::test]
async fn a_single_order_that_is_there_already_is_answered_while_nothing_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("x.db")).create_if_missing(true);
    let options = options.busy_timeout(std::time::Duration::ZERO);
    let mut writer = start_with(options.clone()).await;
    commit(&mut writer, &[order(1, "A")]).await.unwrap();
    let mut another = options.connect().await.unwrap();
    another.execute("BEGIN IMMEDIATE").await.unwrap();
    let again = commit(&mut writer, &[order(2, "A")]).await.unwrap();
    assert_eq!(issued(again.first()).into_key().id(), id(1));
    assert!(matches!(commit(&mut writer, &[order(3, "B")]).await, Err(StoreError::Unavailable { .. })));
    another.execute("ROLLBACK").await.unwrap();
    let again = commit(&mut writer, &[order(3, "B")]).await.unwrap();
    assert!(matches!(issued(again.first()), Issue::New(_)));
}

#[tokio::test]
async fn one_operation_that_the_database_refuses_takes_no_other_down() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(crate::store::sqlite::SqliteStore::open(folder.path().join("x.db")).await.unwrap());
    let issue = |key: NewKey| {
        let store = store.clone();
        async move { Ledger::issue(store.as_ref(), NewSale::new(key, Vec::new())).await }
    };
    issue(new_key(1)).await.unwrap();
    let other = NewKey { email: "b@example.com".parse().unwrap(), ..new_key(1) };
    // A different key with the same id is refused. The other keys in the batch are committed nevertheless.
    let (one, twice, two) = tokio::join!(issue(new_key(2)), issue(other), issue(new_key(3)));
    assert!(one.is_ok() && two.is_ok());
    assert!(matches!(twice, Err(StoreError::Refused { .. })));
}

async fn with_a_key() -> (tempfile::TempDir, crate::store::sqlite::SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::store::sqlite::SqliteStore::open(folder.path().join("x.db")).await.unwrap();
    store.issue(NewSale::new(new_key(1), Vec::new())).await.unwrap();
    (folder, store)
}

async fn count_and_panic(writer: &mut Writer) -> Result<(), StoreError> {
    commit(writer, &[spend(1)]).await.unwrap();
    panic!("a fault of the writer's");
}

#[tokio::test]
async fn a_writer_that_panics_after_a_commit_goes_on_from_what_is_in_the_file() {
    let (_folder, store) = with_a_key().await;
    let counted = store.writer().unwrap().run(|writer| Box::pin(count_and_panic(writer))).await;
    assert!(matches!(counted, Err(StoreError::Unknown { .. })), "{counted:?}");
    let change = Change::use_of(crate::product::ProductId::new(1).unwrap(), DateTime::UNIX_EPOCH);
    let used = store.change(id(1), change, Vec::new()).await.unwrap().unwrap().unwrap().used();
    assert_eq!(used, 2);
}

async fn readdress_and_panic(writer: &mut Writer) -> Result<(), StoreError> {
    let readdress = "UPDATE delivery_key SET email = 'b@example.com'";
    sqlx::query(readdress).execute(&mut writer.connection).await.unwrap();
    panic!("a fault of the writer's");
}

#[tokio::test]
async fn after_a_panic_nobody_reads_what_was_known_before_it() {
    let (_folder, store) = with_a_key().await;
    let email = async || store.find(id(1)).await.unwrap().unwrap().email().to_string();
    assert_eq!(email().await, "a@example.com");
    let written = store.writer().unwrap().run(|writer| Box::pin(readdress_and_panic(writer))).await;
    assert!(matches!(written, Err(StoreError::Unknown { .. })), "{written:?}");
    assert_eq!(email().await, "b@example.com");
}

/// Two changes that cancel out leave the state unchanged but write two audit entries.
#[tokio::test]
async fn changes_that_cancel_out_are_audited() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = start(&folder.path().join("x.db")).await;
    commit(&mut writer, &[key(1)]).await.unwrap();
    let (at, by) = (DateTime::UNIX_EPOCH, crate::key::Actor::admin());
    let revoke = change(1, Change::Revoke { at, reason: None, by: by.clone() });
    commit(&mut writer, &[revoke, spend(2), change(1, Change::Restore { at, by })]).await.unwrap();
    let actions: Vec<String> = sqlx::query_scalar("SELECT action FROM delivery_event ORDER BY number")
        .fetch_all(&mut writer.connection)
        .await
        .unwrap();
    assert_eq!(actions, ["revoked", "restored"]);
}
