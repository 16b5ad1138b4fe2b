//! Dumps. A store can be written to one text file, and a store can be created from such a file. This moves a store
//! between databases, machines and versions.
//!
//! A dump is JSON Lines. The first line contains the name of the format and the number of rows of each table. The rows
//! follow, one per line: table by table in the order of `TABLES`, which the order of the counts does not show, and each
//! table in the order of its primary key. Fields without a value are omitted. The last line repeats the counts and adds
//! the SHA-256 of everything before it:
//!
//! ```text
//! {"format":"delivery-dump","version":1,"counts":{"alias":0,"audit":3,…}}
//! {"row":"keyring","fingerprint":"0001…"}
//! {"row":"key","number":7,"key_id":"019a…","product_id":1,"customer_email":"ada@example.com",…}
//! {"format":"delivery-dump","version":1,"counts":{…},"sha256":"…"}
//! ```
//!
//! A dump is a snapshot of the store at one instant, even while servers use the store. Loading first checks the whole
//! file. It then adds all rows of the dump to an empty store. If that fails, no row is added. A dump of the loaded
//! store has the same bytes as the loaded file. There is one exception: before the load, servers had registered other
//! signing secrets in the store, or sellers had signed in.
//!
//! A dump does not contain the secrets that sign keys. It only contains the fingerprints of these secrets. The caller
//! that loads a dump passes the fingerprints of its own secrets. The dump is refused if the loaded store would not
//! accept the caller's secrets: see [`Fingerprint::accepts`](crate::key::Fingerprint::accepts).

mod check;
mod empty;
mod error;
mod load;
mod table;
mod tables;
mod write;

use std::collections::BTreeMap;

pub(in crate::store) use self::check::{Checked, check};
pub(in crate::store) use self::empty::is_empty;
pub use self::error::DumpError;
pub(in crate::store) use self::load::{Target, load};
pub(in crate::store) use self::table::{Kind, Table};
pub(in crate::store) use self::tables::TABLES;
pub(in crate::store) use self::write::write;

/// The name of the format, in the first and the last line.
const FORMAT: &str = "delivery-dump";
/// The version of the format. It is incremented when older programs cannot load new dumps.
const VERSION: u32 = 1;

/// The progress of writing or loading a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Progress {
    /// What is counted: a name for the rows, such as "keys"; or "bytes checked" while a file is checked.
    pub what: &'static str,
    /// How many of these rows or bytes were processed so far.
    pub done: u64,
    /// How many of these rows or bytes there are in total.
    pub of: u64,
}

/// The contents of a dump that was written or loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Dumped {
    /// The number of rows of each table, with a name for the rows, such as "keys".
    pub rows: Vec<(&'static str, u64)>,
    /// The SHA-256 of all lines but the last.
    pub sha256: [u8; 32],
}

/// The first or the last line of a dump. Only the last one has the `sha256`.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Frame {
    format: String,
    version: u32,
    /// The number of rows of each table. A table is named by the value that its rows have in the field `row`.
    counts: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl Frame {
    fn new(counts: BTreeMap<String, u64>, sha256: Option<String>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, counts, sha256 }
    }

    fn line(&self) -> Result<String, DumpError> {
        let line = serde_json::to_string(self).map_err(|error| DumpError::Write { source: error.into() })?;
        Ok(line + "\n")
    }
}
