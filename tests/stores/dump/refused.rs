//! What is not loaded: nothing is changed then.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};

use delivery_core::ledger::NewSale;
use delivery_core::store::dump::{DumpError, Dumped, Progress};
use delivery_core::store::{Backend, Catalog, CatalogEditor, Ledger, SqliteError, SqliteStore};
use futures_util::FutureExt;
use sha2::{Digest, Sha256};

use super::ground::{Ground, ground};
use super::sold::{keyring, message, order, secrets};
use crate::fixtures::{by_admin, facts};

/// How the names of a log and a journal end.
const LEFT_BEHIND: [&str; 2] = ["-wal", "-journal"];

/// A store that has sold a little, dumped as `whole`.
async fn dumped() -> Ground {
    let ground = ground();
    let store = ground.source().await.unwrap();
    store.register(&secrets()).await.unwrap();
    store.add_product(facts("Book"), by_admin()).await.unwrap();
    store.issue(NewSale::new(order(1), message(1))).await.unwrap();
    store.close().await;
    ground.dump_file("whole").await.unwrap();
    std::fs::remove_file(ground.file()).unwrap();
    // What a killed server would leave beside it must not be taken for a part of the file that is loaded.
    for end in LEFT_BEHIND {
        std::fs::write(format!("{}{end}", ground.file().display()), "the log of another file").unwrap();
    }
    ground
}

/// The dump, with its last line made anew for what it has now.
fn resealed(lines: &[String]) -> String {
    let body = lines[..lines.len() - 1].join("\n") + "\n";
    let seal = data_encoding::HEXLOWER.encode(&Sha256::digest(&body));
    let first = lines[0].strip_suffix('}').unwrap();
    format!("{body}{first},\"sha256\":\"{seal}\"}}\n")
}

#[tokio::test]
async fn a_file_that_is_no_whole_dump_is_refused_and_nothing_is_changed() {
    let ground = dumped().await;
    let whole = String::from_utf8(ground.read("whole")).unwrap();
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let key = lines.iter().position(|line| line.starts_with("{\"row\":\"key\",")).unwrap();
    let with = |at: usize, line: String| {
        let mut lines = lines.clone();
        lines[at] = line;
        resealed(&lines)
    };
    assert_eq!(resealed(&lines), whole, "what the test seals is sealed as the program does");
    let cases = [
        ("empty", String::new(), "is no dump of a store"),
        ("another file", "{\"some\":\"JSON\"}\n".to_owned(), "is no dump of a store"),
        ("another format", whole.replace("delivery-dump", "another"), "is no dump of a store"),
        ("without counts", "{\"format\":\"delivery-dump\",\"version\":1}\n".to_owned(), "is no dump of a store"),
        (
            "an older format",
            whole.replace("\"version\":1,\"counts\"", "\"version\":0,\"counts\""),
            "use an older program",
        ),
        ("a newer format", whole.replace("\"version\":1,\"counts\"", "\"version\":2,\"rows\""), "use a newer program"),
        ("cut in a line", whole[..whole.len() - 40].to_owned(), "its last line is missing"),
        ("cut after a line", format!("{}\n", lines[..key].join("\n")), "its last line is missing"),
        ("without its last byte", whole[..whole.len() - 1].to_owned(), "its last line is missing"),
        ("changed", whole.replace("\"max_uses\":1000", "\"max_uses\":9999"), "its SHA-256 is not"),
        ("with a row less", resealed(&[&lines[..key], &lines[key + 1..]].concat()), "its rows are not as many"),
        ("with an unknown table", with(0, lines[0].replace("\"alias\":", "\"other\":")), "use a newer program"),
        ("with an unknown field", with(key, lines[key].replace("\"used_count\"", "\"spent\"")), "line"),
        ("with a text for a number", with(key, lines[key].replace("\"used_count\":0", "\"used_count\":\"0\"")), "line"),
        ("with a number below 1", with(key, lines[key].replace("\"number\":", "\"number\":-")), "line"),
        (
            "with a number too great",
            with(key, lines[key].replace("\"number\":", "\"number\":922337203685477580")),
            "line",
        ),
        ("with a count below 0", with(key, lines[key].replace("\"used_count\":0", "\"used_count\":-5")), "line"),
        ("with a row of another table", with(key, lines[key].replace("\"row\":\"key\"", "\"row\":\"use\"")), "line"),
        (
            "with a key without an address",
            with(key, lines[key].replace("\"customer_email\"", "\"host_ref\"")),
            "cannot be",
        ),
    ];
    for (what, text, said) in cases {
        assert_ne!(text, whole, "{what}");
        std::fs::write(ground.dumped("broken"), text).unwrap();
        let refused = ground.load_file("broken").await.unwrap_err();
        let told = delivery_core::explain(&refused);
        assert!(told.contains(said), "{what}: {told}");
        assert!(!told.contains("exämple.com"), "{what}: {told}");
        let there = files(ground.folder.path());
        assert!(!there.iter().any(|file| matches!(file.as_str(), "delivery.db" | "delivery.db.loading")), "{what}");
    }
    ground.load_file("whole").await.unwrap();
    let there = files(ground.folder.path());
    assert!(LEFT_BEHIND.iter().all(|end| !there.contains(&format!("delivery.db{end}"))), "{there:?}");
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_store_that_is_not_new_or_that_another_secret_signs_is_refused_and_stays_as_it_was() {
    let ground = dumped().await;
    let other = keyring("another secret that signs").fingerprints();
    // Another secret.
    let refused = ground.load_into("whole", &ground.file(), &other).await;
    assert!(matches!(refused, Err(DumpError::OtherSecret)), "{refused:?}");
    assert!(!ground.file().exists());
    let refused = ground.load_schema_with("whole", &other).await;
    assert!(matches!(refused, Err(DumpError::OtherSecret)), "{refused:?}");
    // A store that has something.
    let (store, target) = (ground.source().await.unwrap(), ground.target().await.unwrap());
    let refused = ground.load_file("whole").await;
    assert!(matches!(refused, Err(DumpError::Sqlite(SqliteError::InUse { .. }))), "{refused:?}");
    store.add_product(facts("Other"), by_admin()).await.unwrap();
    target.add_product(facts("Other"), by_admin()).await.unwrap();
    store.close().await;
    assert!(matches!(ground.load_file("whole").await, Err(DumpError::NotEmpty)));
    assert!(matches!(ground.load_schema("whole").await, Err(DumpError::NotEmpty)));
    let store = ground.source().await.unwrap();
    assert_eq!(store.products().await.unwrap().len(), 1);
    assert_eq!(target.products().await.unwrap().len(), 1);
    store.close().await;
    // A file that is none of ours.
    let foreign = ground.folder.path().join("notes.txt");
    std::fs::write(
        &foreign,
        "not a database, and longer than the head of one would be: ................................",
    )
    .unwrap();
    let refused = ground.load_into("whole", &foreign, &secrets()).await;
    assert!(matches!(refused, Err(DumpError::Sqlite(_))), "{refused:?}");
    assert!(std::fs::read_to_string(&foreign).unwrap().starts_with("not a database"));
    let missing = SqliteStore::dump(ground.folder.path().join("missing.db"), Vec::new(), |_| {}).await;
    assert!(matches!(missing, Err(DumpError::Sqlite(SqliteError::NoFile { .. }))), "{missing:?}");
}

/// A load that is cut off in the middle, as a kill does it, has changed nothing, and the next one fills the store.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_load_that_is_interrupted_leaves_nothing_and_can_be_repeated() {
    let ground = dumped().await;
    let empty = ground.target().await.unwrap();
    for step in 1..=5 {
        let (dump, secrets) = (ground.dumped("whole"), secrets());
        cut_off(step, |progress| SqliteStore::load(&dump, ground.file(), &secrets, progress)).await;
        cut_off(step, |progress| ground.options().load(&dump, &ground.url, &secrets, progress)).await;
        assert_eq!(empty.products().await.unwrap().len(), 0, "{step}");
    }
    let loaded = ground.load_file("whole").await.unwrap();
    assert_eq!(ground.load_schema("whole").await.unwrap(), loaded);
    // A server that was waiting there sees it.
    assert_eq!(empty.products().await.unwrap().len(), 1);
    assert_eq!(ground.source().await.unwrap().products().await.unwrap().len(), 1);
    assert!(!PathBuf::from(format!("{}.loading", ground.file().display())).exists());
}

/// Cuts a load off when it tells of its progress for the `step`th time.
async fn cut_off<F: Future<Output = Result<Dumped, DumpError>>>(
    step: usize,
    load: impl FnOnce(Box<dyn FnMut(Progress) + Send>) -> F,
) {
    let mut told = 0;
    let progress = Box::new(move |_| {
        told += 1;
        if told == step {
            resume_unwind(Box::new("cut off"));
        }
    });
    let loaded = AssertUnwindSafe(load(progress)).catch_unwind().await;
    assert!(loaded.is_err(), "it was over before step {step}");
}
