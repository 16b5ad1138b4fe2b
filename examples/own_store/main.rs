//! A store of one's own: [an append-only file](store) that passes every conformance case for a ledger. The program is
//! for developers who must keep keys and orders in something other than SQLite or PostgreSQL.
//!
//! If SQLite or PostgreSQL will do, copy `minimal_axum` or `minimal_rocket` instead. To test a store with generated
//! histories as well, copy `own_histories`. To store a few values of your own beside a sale, copy `embed_axum` or
//! `embed_rocket`: they write both in one transaction.
//!
//! ```console
//! $ cargo run --example own_store
//! ```

mod store;

use std::sync::Arc;

use delivery_testing::Fixture;
use delivery_testing::conformance::{LEDGER, REOPENED};

use self::store::FileStore;

/// A store file in a temporary folder, which is deleted afterwards. A case may open the file several times.
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
