//! What can stop a move.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use thiserror::Error;

use crate::clock::timestamp;
use crate::store::{PostgresError, SqliteError, StoreError};

/// A store was not moved, or not to the end. The message is for the operator and names the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// There is no such file.
    #[error("{} does not exist: name the database file to move", path.display())]
    NoSource {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not the database file of a store", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened.
    #[error(transparent)]
    Source(#[from] SqliteError),
    /// The database cannot be connected to.
    #[error(transparent)]
    Target(#[from] PostgresError),
    /// A server, or another move, is connected to the schema.
    #[error(
        "a server or another move is using the PostgreSQL database: stop it first (its sessions are those of \
         pg_stat_activity with the application_name delivery)"
    )]
    InUse,
    /// The schema has keys, products or posts, or a move, that have nothing to do with this file.
    #[error(
        "the schema {schema} is not empty, and what it holds did not come from this file, or came from another copy of it: \
         move into another database"
    )]
    Occupied {
        /// The schema.
        schema: String,
    },
    /// This move was finished before; nothing was changed.
    #[error("the store was moved here already, at {}", timestamp(*at))]
    Finished {
        /// When.
        at: DateTime<Utc>,
    },
    /// The store was moved into another database; nothing was changed.
    #[error(
        "the store was moved at {}, but not into this database: set the address of the one it was moved into. Only if that is \
         lost for good, DELETE FROM delivery_transfer in the file makes it a store again, as it was then",
        timestamp(*at)
    )]
    MovedElsewhere {
        /// When.
        at: DateTime<Utc>,
    },
    /// The file is a copy from before a move that was finished; nothing was changed.
    #[error(
        "the store was moved here already, at {}, and this file is an older copy of it: never start a server with it, for \
         it would sell orders a second time",
        timestamp(*at)
    )]
    OldCopy {
        /// When the move was finished.
        at: DateTime<Utc>,
    },
    /// What was read back from the target is not what the source holds.
    #[error("the copy of the {what} differs from the source: run the move again")]
    Differs {
        /// Which rows.
        what: &'static str,
    },
    /// A row cannot be read from the one, or was refused by the other; running the move again changes nothing about it.
    #[error("the store cannot be moved as it is")]
    Unmovable {
        /// The cause.
        source: StoreError,
    },
    /// One of the two databases failed on the way; the move can be run again, and goes on where it stopped. At the very end
    /// that is the only way to go on: the source may not open any more, and the target does not open yet.
    #[error("the move was interrupted and can be run again")]
    Interrupted {
        /// The cause.
        source: StoreError,
    },
}

impl From<StoreError> for TransferError {
    fn from(source: StoreError) -> Self {
        if matches!(source, StoreError::Corrupt { .. } | StoreError::Refused { .. }) {
            Self::Unmovable { source }
        } else {
            Self::Interrupted { source }
        }
    }
}
