//! Why a store was not dumped or loaded.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[cfg(feature = "postgres")]
use crate::store::PostgresError;
#[cfg(feature = "sqlite")]
use crate::store::SqliteError;
use crate::store::StoreError;

/// A store was not dumped or not loaded. A load that failed has changed nothing.
///
/// It displays as a sentence for the operator, without values of rows.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The dump cannot be written.
    #[error("the dump cannot be written")]
    Write {
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The dump cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is no dump.
    #[error("{} is no dump of a store: its first line does not say so", path.display())]
    NotADump {
        /// The file.
        path: PathBuf,
    },
    /// A newer program wrote the dump.
    #[error("{} has version {version} of the format, which this program does not know: use a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        version: u32,
    },
    /// The dump is not whole, or was changed.
    #[error("{} is not whole, or was changed: {why}", path.display())]
    Torn {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// A row of the dump cannot be read.
    #[error("line {line} of the dump cannot be read: {why}")]
    Line {
        /// Its number, beginning with 1.
        line: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A row of the store cannot be written into a dump.
    #[error("row {row} of the {what} cannot be dumped: {why}")]
    Row {
        /// Which rows: "keys".
        what: &'static str,
        /// Its place among them, beginning with 1.
        row: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The store has the tables of an older version.
    #[error("the store has the tables of an older version: start this program's server on it once")]
    Older,
    /// The store that is to be filled is not empty, or a server has worked on it.
    #[error("the store is not empty, or a server has worked on it: load the dump into a new file, database or schema")]
    NotEmpty,
    /// Other secrets signed the keys of the dump.
    #[error(
        "the keys of the dump were signed with another secret: load it with the KEY_SECRET of the store it came from"
    )]
    OtherSecret,
    /// The SQLite file cannot be opened.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    /// The PostgreSQL schema cannot be opened.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// The store cannot be read or written.
    #[error("the store cannot be read or written")]
    Store(#[from] StoreError),
}
