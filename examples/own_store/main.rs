//! A store of one's own, [written](store) and proved: an append-only file.
//!
//! ```console
//! $ cargo run --example own_store
//! ```

mod store;

use std::sync::Arc;

use delivery_testing::Fixture;
use delivery_testing::conformance::{LEDGER, REOPENED};

use self::store::FileStore;

/// A file in a folder of its own, which is opened again and again.
struct InAFile(tempfile::TempDir);

impl InAFile {
    fn new() -> Result<Self, std::io::Error> {
        tempfile::tempdir().map(Self)
    }
}

impl Fixture for InAFile {
    type Store = FileStore;

    #[expect(clippy::expect_used, reason = "a proof reports by panicking")]
    async fn open(&self) -> Arc<FileStore> {
        Arc::new(FileStore::open(&self.0.path().join("store.jsonl")).await.expect("a file"))
    }
}

#[tokio::main]
async fn main() -> Result<(), std::io::Error> {
    for case in LEDGER {
        case.run(InAFile::new()?).await;
        println!("ok  {}", case.name());
    }
    for case in REOPENED {
        case.run(InAFile::new()?).await;
        println!("ok  {}", case.name());
    }
    Ok(())
}
