//! A store that has sold a good deal, and a schema to load it into.

use std::fs::File;
use std::path::{Path, PathBuf};

use chrono::TimeDelta;
use delivery_core::key::{Actor, Change, Fingerprint, Key};
use delivery_core::ledger::{Addressee, Issue, MessageId, MessageKind, Notice, Outcome, Route};
use delivery_core::post::NewPost;
use delivery_core::product::{File as ProductFile, MediaType, NewProduct, ObjectName, ProductId};
use delivery_core::store::dump::{DumpError, Dumped};
use delivery_core::store::{
    Backend, CatalogEditor, KeyQuery, Ledger, Page, PostQuery, PostgresError, PostgresOptions, PostgresStore, Posts,
    SqliteError, SqliteStore,
};
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::events::{events, receive_events, show};
use super::sold::{ALIASES, KEYS, USES, alias, id, product, secrets, sold};
use crate::fixtures::{self, by_admin, now, spend};
use crate::places::sqlite;
use support::postgres::{postgres, unique};

/// A file, a schema, and dumps of them.
pub struct Ground {
    pub folder: TempDir,
    pub url: String,
    pub schema: String,
}

pub fn ground() -> Ground {
    Ground { folder: tempfile::tempdir().unwrap(), url: postgres().url(), schema: unique() }
}

/// With a store that has sold a good deal, made once.
pub async fn filled() -> Ground {
    static FILLED: OnceCell<TempDir> = OnceCell::const_new();
    let (name, ground) = ("delivery.db", ground());
    let make = async || {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite(&folder).await;
        fill(&store).await;
        store.close().await;
        folder
    };
    std::fs::copy(FILLED.get_or_init(make).await.path().join(name), ground.file()).unwrap();
    ground
}

impl Ground {
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("delivery.db")
    }

    pub async fn source(&self) -> Result<SqliteStore, SqliteError> {
        SqliteStore::open(self.file()).await
    }

    pub async fn target(&self) -> Result<PostgresStore, PostgresError> {
        self.options().connect(&self.url).await
    }

    pub fn options(&self) -> PostgresOptions {
        PostgresStore::options().schema(&self.schema)
    }

    pub fn dumped(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.jsonl"))
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dumped(name)).unwrap()
    }

    pub async fn dump_file(&self, name: &str) -> Result<Dumped, DumpError> {
        SqliteStore::dump(self.file(), File::create(self.dumped(name)).unwrap(), |_| {}).await
    }

    pub async fn dump_schema(&self, name: &str) -> Result<Dumped, DumpError> {
        self.options().dump(&self.url, File::create(self.dumped(name)).unwrap(), |_| {}).await
    }

    pub async fn load_file(&self, name: &str) -> Result<Dumped, DumpError> {
        self.load_into(name, &self.file(), &secrets()).await
    }

    pub async fn load_into(&self, name: &str, file: &Path, secrets: &[Fingerprint]) -> Result<Dumped, DumpError> {
        SqliteStore::load(self.dumped(name), file, secrets, |_| {}).await
    }

    pub async fn load_schema(&self, name: &str) -> Result<Dumped, DumpError> {
        self.load_schema_with(name, &secrets()).await
    }

    pub async fn load_schema_with(&self, name: &str, secrets: &[Fingerprint]) -> Result<Dumped, DumpError> {
        self.options().load(self.dumped(name), &self.url, secrets, |_| {}).await
    }
}

/// Sells a good deal, in every state that there is.
pub async fn fill(store: &SqliteStore) {
    store.register(&secrets()).await.unwrap();
    for index in 0..40 {
        let named = NewProduct::new(format!("Book {index}")).unwrap().content("# Ünïcode\n".repeat(index + 1)).unwrap();
        store.add_product(named.price("9.99".parse().unwrap()), by_admin()).await.unwrap();
        let post = NewPost::new("News", ["a", "b"][index % 2].parse().unwrap(), now()).unwrap();
        store.add_post(post.content("Text").unwrap(), by_admin()).await.unwrap();
    }
    // Two files, of which one was replaced.
    for (number, name) in (1..).zip(["guide.pdf", "Guide.PDF", "Größe.zip"]) {
        let file = ProductFile {
            object: ObjectName::from_bytes([number; 16]),
            name: name.parse().unwrap(),
            size: u64::from(number) << 32,
            sha256: [number; 32],
            media_type: MediaType::default(),
            added_at: now(),
        };
        let files = store.files().unwrap();
        assert!(files.put_file(ProductId::new(1).unwrap(), file, by_admin()).await.unwrap().is_some());
    }
    // As many at once as a ledger lets wait.
    for some in (0..KEYS).collect::<Vec<_>>().chunks(10_000) {
        let issued = join_all(some.iter().map(|index| store.issue(sold(*index)))).await;
        assert!(issued.iter().all(|issue| matches!(issue, Ok(Issue::New(_)))));
    }
    for some in (0..USES).collect::<Vec<_>>().chunks(10_000) {
        let keys = some.iter().map(|index| id(u128::from(index.unsigned_abs()) % 999));
        let used = join_all(keys.map(|key| store.change(key, spend(0), Vec::new()))).await;
        assert!(used.iter().all(|used| matches!(used, Ok(Some(Ok(_))))));
    }
    for index in 0..50 {
        let told = MessageId::new(format!("webhook-{index}@example.com")).unwrap();
        let to = Addressee::Webhook("crm".parse().unwrap());
        let told = vec![Notice { id: told, kind: MessageKind::KeyRevoked, to }];
        let revoke = Change::Revoke { at: now(), reason: None, by: Actor::admin() };
        store.change(id(index), revoke, told).await.unwrap();
    }
    receive_events(store).await;
    let lease = now() + TimeDelta::minutes(5);
    for (index, message) in store.claim_messages(now(), lease, 400).await.unwrap().into_iter().enumerate() {
        let (at, due, reason) = (now(), lease, "the mail server said no".to_owned());
        let outcome = match index % 4 {
            0 => Outcome::Sent { at },
            1 => Outcome::Retry { due, reason, route: Some(Route::from_bytes([1; 16])) },
            2 => Outcome::Fail { at, reason, route: Route::from_bytes([2; 16]) },
            // Leased when the server ended.
            _ => continue,
        };
        store.complete_message(message.lease, outcome).await.unwrap();
    }
}

/// All that a store tells.
pub async fn picture(store: &(impl Backend + CatalogEditor + Posts)) -> Vec<String> {
    let mut told = vec![show(store.products().await.unwrap()), show(store.failed_messages(10_000).await.unwrap())];
    for number in 1..=45 {
        told.push(show(store.product(product(number)).await.unwrap()));
    }
    for category in [None, Some("b".parse().unwrap())] {
        told.push(show(store.posts(&PostQuery { category, until: now(), before: None, limit: 100 }).await.unwrap()));
    }
    let mut query = KeyQuery { limit: 1_000, ..KeyQuery::default() };
    loop {
        let Page { items, next } = store.search(&query).await.unwrap();
        told.extend(items.iter().map(|key| show((key, key.revoked_at()))));
        query.before = next;
        if next.is_none() {
            break;
        }
    }
    for index in 0..100 {
        told.push(show(store.history(id(index), None, 1_000).await.unwrap().items));
    }
    for number in 0..ALIASES {
        let key = store.office().unwrap().alias(&[alias(number)]).await.unwrap();
        told.push(show(key.unwrap()));
    }
    told.extend(events(store).await);
    told
}

/// All that a store tells before it is closed.
pub async fn closing_picture(store: SqliteStore) -> Vec<String> {
    let told = picture(&store).await;
    store.close().await;
    told
}

#[track_caller]
pub fn assert_same(one: &[String], other: &[String]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other);
    }
}

pub async fn used(store: &impl Ledger, index: u128) -> Key {
    fixtures::used(store, id(index), 0).await
}
