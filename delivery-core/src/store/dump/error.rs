//! Errors of dumping and loading a store.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[cfg(feature = "postgres")]
use crate::store::PostgresError;
#[cfg(feature = "sqlite")]
use crate::store::SqliteError;
use crate::store::StoreError;

/// The reason why a store was not dumped or loaded. A load that fails has loaded no row, with one exception: after
/// [`StoreError::Unknown`] the store is either loaded or empty. On PostgreSQL, a load that fails may have created or
/// migrated the schema.
///
/// The message is written for the operator and contains no values of rows.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The dump cannot be written.
    #[error("the dump cannot be written")]
    Write {
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The dump cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The path of the dump.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The file is not a dump.
    #[error("{} is no dump of a store: its first line does not say so", path.display())]
    NotADump {
        /// The path of the file.
        path: PathBuf,
    },
    /// The dump has a version of the format, or a kind of rows, that this program cannot load.
    #[error(
        "this program cannot load {}, which has version {version} of the format: use {} program",
        path.display(),
        if *version < super::VERSION { "an older" } else { "a newer" }
    )]
    OtherVersion {
        /// The path of the dump.
        path: PathBuf,
        /// The version of the file's format.
        version: u32,
    },
    /// The dump is incomplete or was changed.
    #[error("{} is not whole, or was changed: {why}", path.display())]
    Torn {
        /// The path of the dump.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// A row of the dump cannot be read.
    #[error("line {line} of the dump cannot be read: {why}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A row of the store cannot be written into a dump.
    #[error("row {row} of the {what} cannot be dumped: {why}")]
    Row {
        /// The kind of rows, such as "keys".
        what: &'static str,
        /// The position of the row among the rows of this kind, from 1.
        row: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The store has the tables of an older version.
    #[error("the store has the tables of an older version: start this program's server on it once")]
    Older,
    /// The target of the load is not empty, or a server has worked on it.
    #[error("the store is not empty, or a server has worked on it: load the dump into a new file, database or schema")]
    NotEmpty,
    /// The keys of the dump were signed with other secrets than those of the caller.
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
