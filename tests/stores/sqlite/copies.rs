//! Copies of a store that is open, and looks that change nothing.

use delivery_core::key::{Acceptance, Fingerprint, Keyring};
use delivery_core::ledger::NewSale;
use delivery_core::store::inspection::Schema;
use delivery_core::store::{Backend, Ledger, SqliteError, SqliteStore};

use super::{add_newer_migration, open, opened};
use crate::fixtures::{key, used};

#[tokio::test]
async fn a_copy_has_what_was_acknowledged_and_opens_in_the_place_of_the_store() {
    let (folder, store) = opened().await;
    let (path, copy) = (folder.path().join("delivery.db"), folder.path().join("copy.db"));
    let id = store.issue(NewSale::new(key(1, -1), Vec::new())).await.unwrap().into_key().id();
    for second in 0..5 {
        used(&store, id, second).await;
        // While it is open, and each in the place of the last.
        let made = SqliteStore::back_up(&path, &copy).await.unwrap();
        assert_eq!(made.keys, 1);
        assert_eq!(made.bytes, std::fs::metadata(&copy).unwrap().len());
        let other = SqliteStore::open(&copy).await.unwrap();
        assert_eq!(other.find(id).await.unwrap().unwrap().used(), second.unsigned_abs() + 1);
        other.close().await;
    }
    // Two at once.
    let (first, second) = tokio::join!(SqliteStore::back_up(&path, &copy), SqliteStore::back_up(&path, &copy));
    assert!(first.is_ok() || second.is_ok());
    SqliteStore::open(&copy).await.unwrap().close().await;
    store.close().await;
    let nothing = folder.path().join("nothing.db");
    std::fs::write(&nothing, "").unwrap();
    for (from, why) in [(&nothing, "has no store of keys"), (&folder.path().join("nowhere.db"), "does not exist")] {
        let error = SqliteStore::back_up(from, &copy).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(!folder.path().join("copy.db.new").exists());
}

#[tokio::test]
async fn a_look_tells_what_there_is_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("delivery.db");
    let secret = |secret: &str| secret.parse::<Keyring>().unwrap().fingerprints();
    let (first, other) = (secret("a-secret-of-the-shop"), secret("a-secret-of-another"));
    let look = async |secrets: &[Fingerprint]| {
        let found = SqliteStore::inspect(&path, secrets).await.unwrap();
        (found.schema, found.acceptance)
    };
    assert_eq!(look(&first).await, (Schema::Missing, None));
    assert!(!path.exists());
    let store = open(&folder).await;
    store.register(&first).await.unwrap();
    assert_eq!(look(&first).await, (Schema::Current, Some(Acceptance::Accepted)), "while it is open");
    store.close().await;
    let files = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        files.map(|file| (std::fs::read(&file).unwrap(), file)).collect::<Vec<_>>()
    };
    let before = files();
    assert_eq!(look(&first).await, (Schema::Current, Some(Acceptance::Accepted)));
    assert_eq!(look(&other).await, (Schema::Current, Some(Acceptance::Foreign)));
    assert!(files() == before);
    add_newer_migration(&path).await;
    assert!(matches!(SqliteStore::inspect(&path, &first).await, Err(SqliteError::NewerSchema { .. })));
    let copy = folder.path().join("copy.db");
    let refused = SqliteStore::back_up(&path, &copy).await.unwrap_err();
    assert!(matches!(&refused, SqliteError::NewerSchema { path: named, .. } if *named == path), "{refused}");
    assert!(!copy.exists());
}
