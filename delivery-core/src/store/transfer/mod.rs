//! From one machine to many: a SQLite file moves into a PostgreSQL schema, with every key, order, use, e-mail, product and
//! post.
//!
//! Rows are copied under their own numbers, a chunk at a time, each in a transaction of its own. A chunk that is there
//! already, equal to the source's, is left alone; from the first that differs on, rows are copied anew. So a move that was
//! interrupted goes on where it stopped, and one whose source was served from in between catches up. When all is copied,
//! all is read back from both sides and compared.
//!
//! At any moment at most one of the two can be served from, so that no order can get two keys. While the move runs, its
//! lock on the file and its lock in the schema keep servers out of both. Until it is finished, a mark in the schema does.
//! The source is marked as moved, durably, before that mark is taken away. (A copy of the file that was made before knows
//! nothing of this.)

mod error;

use std::path::Path;

use sha2::{Digest, Sha256};

pub use self::error::TransferError;
use super::postgres::TransferTarget;
use super::sql::rows::TransferState;
use super::sql::tables::{TABLES, Table};
use super::sqlite::TransferSource;
use crate::clock::Clock;

/// A move of a [`SqliteStore`](super::SqliteStore)'s file into the schema of a [`PostgresStore`](super::PostgresStore).
///
/// ```no_run
/// # use delivery_core::{SystemClock, store::{Transfer, TransferError}};
/// # async fn example() -> Result<(), TransferError> {
/// let transfer = Transfer::open("delivery.db", "postgres://delivery:password@localhost/shop").await?;
/// let progress = |now: delivery_core::store::Progress| eprintln!("{}: {} of {}", now.what, now.done, now.of);
/// for moved in transfer.run(&SystemClock::default(), progress).await? {
///     println!("{} {}", moved.rows, moved.what);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Transfer {
    source: TransferSource,
    target: TransferTarget,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Progress {
    /// Whether rows are being compared; they are copied before.
    pub checking: bool,
    /// Which rows: "keys".
    pub what: &'static str,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub of: u64,
}

/// What was moved of one kind, equal on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Moved {
    /// Which rows: "keys".
    pub what: &'static str,
    /// How many.
    pub rows: u64,
    /// SHA-256 over all their values.
    pub fingerprint: [u8; 32],
}

impl Transfer {
    /// Takes hold of both: the file, which no server may have open, and the schema `delivery` of the database at `url`,
    /// made and migrated as needed, which must be empty or hold the beginning of this move.
    ///
    /// # Errors
    ///
    /// [`TransferError`]; nothing was moved then.
    pub async fn open(source: impl AsRef<Path>, url: &str) -> Result<Self, TransferError> {
        Self::open_to_schema(source, url, super::postgres::SCHEMA).await
    }

    /// The same, into another schema.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_to_schema(source: impl AsRef<Path>, url: &str, schema: &str) -> Result<Self, TransferError> {
        let path = source.as_ref();
        if !path.is_file() {
            return Err(TransferError::NoSource { path: path.to_owned() });
        }
        let mut target = TransferTarget::open(url, schema).await?;
        match begun(path, &mut target, schema).await {
            Ok(source) => Ok(Self { source, target }),
            Err(error) => {
                // What stopped the move is what the caller must know.
                let _ = target.leave().await;
                Err(error)
            }
        }
    }

    /// Copies, checks, and then lets servers have the target instead of the source, with the time of `clock`. `progress` is
    /// called after each chunk. Dropping the future stops the move; it can be run again.
    ///
    /// # Errors
    ///
    /// [`TransferError`]; the target cannot be served from until the move was run again. So it is with the source, if the
    /// failure was at the very end.
    pub async fn run(
        mut self,
        clock: &impl Clock,
        mut progress: impl FnMut(Progress),
    ) -> Result<Vec<Moved>, TransferError> {
        for table in &TABLES {
            self.copy(table, &mut progress).await?;
        }
        let mut moved = Vec::with_capacity(TABLES.len());
        for table in &TABLES {
            moved.push(self.check(table, &mut progress).await?);
        }
        let keyring = self.source.keyring().await?;
        self.target.prepare(&keyring).await?;
        let now = clock.now();
        // In this order there is no moment at which both open.
        self.source.finish(now).await?;
        self.target.finish(now).await?;
        Ok(moved)
    }

    /// Makes the target's table equal to the source's. While a chunk is written, the next is read.
    async fn copy(&mut self, table: &Table, progress: &mut impl FnMut(Progress)) -> Result<(), TransferError> {
        let of = self.source.count(table).await?;
        let (mut done, mut after) = (0, table.start());
        let mut chunk = self.source.read(table, &after).await?;
        while let Some(last) = chunk.last.clone() {
            let (written, next) =
                tokio::join!(self.target.write(table, &after, &chunk), self.source.read(table, &last));
            written?;
            done += chunk.rows as u64;
            progress(Progress { checking: false, what: table.what, done, of });
            (after, chunk) = (last, next?);
        }
        self.target.truncate(table, &after).await?;
        Ok(())
    }

    /// Reads both to their ends and compares.
    async fn check(&mut self, table: &Table, progress: &mut impl FnMut(Progress)) -> Result<Moved, TransferError> {
        let of = self.source.count(table).await?;
        let (mut done, mut after, mut fingerprint) = (0, table.start(), Sha256::new());
        loop {
            let (source, target) = tokio::join!(self.source.read(table, &after), self.target.read(table, &after));
            let (source, target) = (source?, target?);
            if source != target {
                return Err(TransferError::Differs { what: table.what });
            }
            let Some(last) = source.last.clone() else { break };
            source.digest(&mut fingerprint);
            (done, after) = (done + source.rows as u64, last);
            progress(Progress { checking: true, what: table.what, done, of });
        }
        if (self.source.count(table).await?, self.target.count(table).await?) != (done, done) {
            return Err(TransferError::Differs { what: table.what });
        }
        Ok(Moved { what: table.what, rows: done, fingerprint: fingerprint.finalize().into() })
    }
}

/// The source, once it is clear that it may move into `target`, and marked in both.
async fn begun(path: &Path, target: &mut TransferTarget, schema: &str) -> Result<TransferSource, TransferError> {
    let not_a_store = || TransferError::NotAStore { path: path.to_owned() };
    let mut source = TransferSource::open(path).await?.ok_or_else(not_a_store)?;
    // Before the lock: servers that are there need not notice what cannot be.
    sense(&mut source, target, schema).await?;
    if !target.lock().await? {
        return Err(TransferError::InUse);
    }
    if sense(&mut source, target, schema).await? == Stage::New {
        // The source first: a crash in between leaves an empty target that can be moved into.
        let id = target.new_id().await?;
        source.begin(&id).await?;
        target.begin(&id).await?;
    }
    source.prepare().await?;
    Ok(source)
}

#[derive(PartialEq)]
enum Stage {
    New,
    Begun,
}

/// What a move from `source` into `target` would be, if it makes sense.
async fn sense(source: &mut TransferSource, target: &mut TransferTarget, schema: &str) -> Result<Stage, TransferError> {
    match (source.state().await?, target.state().await?) {
        (Some(TransferState { finished_at: Some(at), .. }), None) => Err(TransferError::MovedElsewhere { at }),
        (_, None) if target.is_empty().await? => Ok(Stage::New),
        (Some(from), Some(to)) if from.id == to.id => match (from.finished_at, to.finished_at) {
            (_, None) => Ok(Stage::Begun),
            (Some(_), Some(at)) => Err(TransferError::Finished { at }),
            (None, Some(at)) => Err(TransferError::OldCopy { at }),
        },
        _ => Err(TransferError::Occupied { schema: schema.to_owned() }),
    }
}
