//! A whole store as one file of text, and a store from such a file: between databases, machines and versions.
//!
//! A dump is JSON Lines. The first line says what the file is and how many rows it has. Then comes a row a line, table by
//! table, each table in the order of its keys; fields without a value are left out. The last line has the counts again, and
//! the SHA-256 of everything before it:
//!
//! ```text
//! {"format":"delivery-dump","version":1,"counts":{"keyring":1,"product":2,…}}
//! {"row":"keyring","fingerprint":"0001…"}
//! {"row":"key","number":7,"key_id":"019a…","product_id":1,"customer_email":"ada@example.com",…}
//! {"format":"delivery-dump","version":1,"counts":{…},"sha256":"…"}
//! ```
//!
//! A dump shows the store as of one instant, also while servers use it. Loading checks the whole file first, and fills an empty
//! store: all of it, or nothing. A store that was loaded is dumped as the same bytes.
//!
//! The secrets that keys are signed with are not in a dump, only their fingerprints. Loading asks for the secrets'
//! fingerprints, and refuses a dump that other secrets signed.

mod check;
mod empty;
mod error;
mod load;
mod table;
mod write;

pub(in crate::store) use self::check::{Checked, check};
pub(in crate::store) use self::empty::is_empty;
pub use self::error::DumpError;
pub(in crate::store) use self::load::{Target, load};
pub(in crate::store) use self::table::{Kind, TABLES, Table};
pub(in crate::store) use self::write::write;

/// What the first and the last line say the file is.
const FORMAT: &str = "delivery-dump";
/// The version of the format. It grows when an older program could not load a dump any more.
const VERSION: u32 = 1;

/// How far a dump or a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Progress {
    /// Which rows: "keys". While a file is checked, "bytes checked".
    pub what: &'static str,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub of: u64,
}

/// What a dump has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Dumped {
    /// How many rows of each table: "keys".
    pub rows: Vec<(&'static str, u64)>,
    /// The SHA-256 of all but the last line.
    pub sha256: [u8; 32],
}

/// The first line of a dump, and its last, which also has the `sha256`.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Frame {
    format: String,
    version: u32,
    counts: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// How many rows each table has, by the name that a row calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts(Vec<(String, u64)>);

impl Frame {
    fn new(counts: Counts, sha256: Option<String>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, counts, sha256 }
    }

    /// As a line.
    fn line(&self) -> Result<String, DumpError> {
        let line = serde_json::to_string(self).map_err(|error| DumpError::Write { source: error.into() })?;
        Ok(line + "\n")
    }
}

impl serde::Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(row, count)| (row, count)))
    }
}

impl<'de> serde::Deserialize<'de> for Counts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Counts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a count for each kind of row")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                while let Some(count) = map.next_entry()? {
                    counts.push(count);
                }
                Ok(Counts(counts))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}
