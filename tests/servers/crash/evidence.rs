//! What must be true of what a shop has written and sent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, ReadDir};
use std::io::ErrorKind;
use std::path::PathBuf;

use delivery_core::store::{KeyQuery, Ledger, PostgresStore, SqliteStore};
use mail_parser::MessageParser;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Row};

use super::shop::Shop;
use support::process::CONFIGURED;
use support::smtp::SmtpServer;

/// The database file as the crash left it, recovered by SQLite alone.
pub fn whole(shop: &Shop) {
    if shop.postgres.is_some() {
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    for file in ["delivery.db", "delivery.db-wal"] {
        // After an orderly end there is no log beside it.
        let _ = fs::copy(shop.sites[0].data().join(file), copy.path().join(file));
    }
    shop.run(async {
        let mut file = SqliteConnectOptions::new().filename(copy.path().join("delivery.db")).connect().await.unwrap();
        let said = sqlx::query("PRAGMA integrity_check").fetch_one(&mut file).await.unwrap();
        assert_eq!(said.get::<String, _>(0), "ok");
    });
}

/// Every order has the key that was answered and no other, used as often as clients know.
pub fn one_key_an_order(shop: &Shop) {
    let found = shop.run(async {
        match &shop.postgres {
            Some((_, url)) => found(&PostgresStore::connect(url).await.unwrap()).await,
            None => found(&SqliteStore::open(shop.sites[0].data().join("delivery.db")).await.unwrap()).await,
        }
    });
    let known = shop.book.uses();
    assert_eq!(found.len(), known.len(), "as many keys as orders");
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), known);
}

/// The order and uses of each key.
async fn found(store: &impl Ledger) -> Vec<(String, u64)> {
    let mut query = KeyQuery { limit: 1000, ..KeyQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = store.search(&query).await.unwrap();
        for key in page.items {
            found.push((key.granted().order.as_ref().unwrap().id.to_string(), key.used()));
        }
        match page.next {
            Some(next) => query.before = Some(next),
            None => return found,
        }
    }
}

/// The names of the e-mails that carried each key, as often as they came.
pub fn messages(mail: &SmtpServer, keys: &BTreeMap<String, String>) -> HashMap<String, Vec<String>> {
    let keys: HashSet<&str> = keys.values().map(String::as_str).collect();
    let mut messages: HashMap<String, Vec<String>> = HashMap::new();
    for message in mail.received() {
        let message = MessageParser::new().parse(message.as_bytes()).unwrap().into_owned();
        let text = message.body_text(0).unwrap();
        let key = text.split_whitespace().find(|word| keys.contains(word)).expect("an e-mail with a key that was sold");
        messages.entry(key.to_owned()).or_default().push(message.message_id().unwrap().to_owned());
    }
    messages
}

/// A buyer's mail program shows one e-mail, however often a crash made it arrive.
pub fn one_name_a_message(messages: &HashMap<String, Vec<String>>, crashes: u32) {
    let mut names = HashSet::new();
    for (key, sent) in messages {
        assert!(sent.iter().all(|name| *name == sent[0]), "{key}: {sent:?}");
        assert!(names.insert(&sent[0]), "no two keys share an e-mail");
        assert!(sent.len() as u64 <= 1 + 2 * u64::from(crashes), "only a crash repeats an e-mail");
    }
}

/// Neither a key nor a setting that is secret stands in what the shop wrote, but for the e-mails.
pub fn nothing_secret(shop: &Shop, keys: &BTreeMap<String, String>) {
    let mut written = shop.logs();
    for site in &shop.sites {
        files(fs::read_dir(site.data()).unwrap(), false, &mut written);
    }
    if let Some((postgres, _)) = &shop.postgres {
        files(fs::read_dir(postgres.folder.join("data")).unwrap(), true, &mut written);
        written.push(postgres.folder.join("log"));
    }
    // Every key begins alike; what follows is compared where that stands.
    let prefix = b"dlv_";
    let secret: HashSet<&[u8]> = keys.values().map(|key| &key.as_bytes()[..16]).collect();
    assert!(secret.iter().all(|key| key.starts_with(prefix)));
    for file in written {
        let bytes = match fs::read(&file) {
            // PostgreSQL may have removed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            bytes => bytes.unwrap(),
        };
        for at in memchr::memmem::find_iter(&bytes, prefix) {
            assert!(!secret.contains(&bytes[at..bytes.len().min(at + 16)]), "{} holds a key", file.display());
        }
        for (name, secret) in CONFIGURED {
            assert!(memchr::memmem::find(&bytes, secret.as_bytes()).is_none(), "{} holds {name}", file.display());
        }
    }
}

/// Every file in a folder. A folder in it may vanish meanwhile if PostgreSQL is running there.
fn files(folder: ReadDir, may_vanish: bool, found: &mut Vec<PathBuf>) {
    for entry in folder.map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            match fs::read_dir(&entry) {
                Err(error) if may_vanish && error.kind() == ErrorKind::NotFound => {}
                folder => files(folder.unwrap(), may_vanish, found),
            }
        } else if entry.is_file() {
            found.push(entry);
        }
    }
}
