//! Errors of opening a database file, and the conversion of SQLite's result codes to errors of the store.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::SqliteRow;
use thiserror::Error;

use crate::store::StoreError;
use crate::store::sql::rows::columns;

columns!(SqliteRow);

/// An error of opening, inspecting or copying a database file. The message is written for the operator.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// The directory is missing.
    #[error("{} does not exist: make the directory of the database file first", path.display())]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The file to copy or to dump is missing.
    #[error("{} does not exist", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// Another process, or another store in this process, uses the file.
    #[error(
        "{} is in use by another process: one process owns a SQLite file; several servers share a PostgreSQL database instead",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file or its directory cannot be written to.
    #[error("{} cannot be written to: the database file and its directory must be writable", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// The error of SQLite or of the operating system.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not a SQLite database, or is damaged.
    #[error("{} is not a SQLite database, or is damaged", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: sqlx::Error,
    },
    /// A later version of this software migrated the file.
    #[error("{} was used with a newer version of this software: its schema has step {step}, unknown here", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The number of a migration that was applied to the file and that this version does not know.
        step: i64,
    },
    /// There is no store in the file.
    #[error("{} has no store of keys", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The copy could not be made. An older copy at the same place is unchanged, unless everything succeeded except the
    /// final sync of its directory.
    #[error("the copy {} cannot be made", path.display())]
    Backup {
        /// The file of the copy.
        path: PathBuf,
        /// Why the copy could not be made.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no space left.
    #[error("{} cannot grow: no space is left on its disk", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: sqlx::Error,
    },
    /// SQLite is too old, or cannot run with a write-ahead log and full syncs here.
    #[error("SQLite {found} does not keep what this store promises: {why}")]
    Unfit {
        /// The version of the SQLite library.
        found: String,
        /// Which requirement SQLite does not meet.
        why: &'static str,
    },
    /// Any other error.
    #[error("{} cannot be opened", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be opened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SqliteError {
    /// Converts an error that occurred while the file at `path` was opened.
    pub(super) fn while_opening(path: PathBuf, source: sqlx::Error) -> Self {
        match primary_code(&source) {
            // SQLITE_BUSY
            Some(5) => Self::InUse { path },
            // SQLITE_CANTOPEN. A server locks the file before SQLite opens it, and locking creates a missing file. A
            // backup or a dump does not lock the file, so the file may be missing.
            Some(14) if matches!(path.try_exists(), Ok(false)) => Self::NoFile { path },
            // SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN
            Some(3 | 8 | 14) => Self::ReadOnly { path, source: Box::new(source) },
            // SQLITE_CORRUPT, SQLITE_NOTADB
            Some(11 | 26) => Self::NotADatabase { path, source },
            Some(13) => Self::DiskFull { path, source },
            _ => Self::Other { path, source: Box::new(source) },
        }
    }

    /// Converts an error that occurred while the file at `path` was migrated.
    pub(super) fn while_migrating(path: PathBuf, error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(step) | MigrateError::VersionTooNew(step, _) => {
                Self::NewerSchema { path, step }
            }
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
                Self::while_opening(path, source)
            }
            other => Self::Other { path, source: Box::new(other) },
        }
    }
}

/// Converts an error that occurred while the store was in use.
///
/// A full disk is [`StoreError::Full`]. A statement that SQLite rejects is [`StoreError::Refused`], and a damaged file
/// or row is [`StoreError::Corrupt`]; these errors are permanent. All other errors, such as I/O errors, may be
/// temporary, so they are [`StoreError::Unavailable`].
pub(super) fn store_error(error: sqlx::Error) -> StoreError {
    match primary_code(&error) {
        // SQLITE_ERROR, SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_RANGE
        Some(1 | 18 | 19 | 20 | 25) => StoreError::refused(error),
        // SQLITE_CORRUPT, SQLITE_NOTADB
        Some(11 | 26) => StoreError::corrupt_because("the database file is damaged", error),
        Some(13) => StoreError::Full { source: Some(Arc::new(error)) },
        None if matches!(
            error,
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_)
        ) =>
        {
            StoreError::corrupt_because("a column has another type", error)
        }
        _ => StoreError::unavailable_because("the database does not answer", error),
    }
}

/// Returns SQLite's primary result code, the low byte of the extended one.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
