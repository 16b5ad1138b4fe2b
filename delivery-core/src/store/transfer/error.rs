//! What can stop a move.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use thiserror::Error;

use crate::clock::timestamp;
use crate::store::{PostgresError, SqliteError, StoreError};

/// A store was not moved, or not to the end. The message is for the operator and names the remedy. Until a move is finished
/// the source is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// There is no such file.
    #[error("{} does not exist: name the database file to move", path.display())]
    NoSource {
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
    #[error("a server or another move is using the PostgreSQL database: stop it first")]
    InUse,
    /// The schema has keys or products that did not come with this move.
    #[error(
        "the schema in the PostgreSQL database is not empty, and what it holds did not come from this file: a store is \
         moved into a new schema only"
    )]
    Occupied,
    /// The move was finished before; nothing was changed.
    #[error("the store was moved to PostgreSQL already, at {}", timestamp(*at))]
    Finished {
        /// When.
        at: DateTime<Utc>,
    },
    /// What was read back from the target is not what the source holds.
    #[error("the copy of the {what} differs from the source: run the move again")]
    Differs {
        /// Which rows.
        what: &'static str,
    },
    /// One of the two databases failed on the way; the move can be run again, and goes on where it stopped.
    #[error("the move was interrupted and can be run again")]
    Interrupted {
        /// The cause.
        #[from]
        source: StoreError,
    },
}
