//! Copying a store that may be in use by a server, in another process or in this one.
//!
//! SQLite makes the copy (`VACUUM INTO`) from one snapshot of the file. The snapshot contains everything that was
//! acknowledged before the copy began. The server goes on writing meanwhile. Until the copy is made, the server cannot
//! begin to overwrite its write-ahead log, so the log grows with every write.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection};

use super::inspect::{reading, step};
use super::open::newest_script;
use super::path::{folder, with_end};
use super::{SqliteError, SqliteStore};
use crate::entropy::{Entropy, SystemEntropy};

/// A backup that was made and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Number of keys in the copy.
    pub keys: u64,
    /// Size of the copy in bytes.
    pub bytes: u64,
}

impl SqliteStore {
    /// Copies the store in the file `from` to the file `to`, even while a server has `from` open. The copy contains
    /// everything that was acknowledged before the call. It is a single file that can be opened in place of `from`. On
    /// Unix only its owner can read it.
    ///
    /// The copy is first made under another name in the same folder, and is read in full. Only then does it replace an
    /// older copy at `to`. A call that is killed leaves a file `to.new.…` behind.
    ///
    /// The copy does not contain the secrets with which keys are signed, because no database file contains these
    /// secrets. Back them up too.
    ///
    /// # Errors
    ///
    /// [`SqliteError`] if there is no store in `from`, if `to` is a store in use, or if the copy cannot be written or
    /// read. A file that was at `to` is then unchanged, with one exception: if only the final sync of the folder
    /// failed, the copy has already replaced that file.
    pub async fn back_up(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup, SqliteError> {
        back_up(from.as_ref(), to.as_ref()).await
    }
}

async fn back_up(from: &Path, to: &Path) -> Result<Backup, SqliteError> {
    refuse_a_store_in_use(from, to)?;
    let new = copy_path(to);
    let unwritten = |source: io::Error| SqliteError::Backup { path: to.to_owned(), source: Box::new(source) };
    let file = make(&new).map_err(unwritten)?;
    let made = async {
        copy(from, &new, to).await?;
        file.sync_all().map_err(unwritten)?;
        let keys = verify(&new, to).await?;
        let bytes = new.metadata().map_err(unwritten)?.len();
        fs::rename(&new, to).and_then(|()| File::open(folder(to))?.sync_all()).map_err(unwritten)?;
        Ok(Backup { keys, bytes })
    };
    made.await.inspect_err(|_: &SqliteError| {
        // An incomplete file must not be mistaken for a copy.
        let _ = fs::remove_file(&new);
        let _ = fs::remove_file(with_end(&new, "-journal"));
    })
}

/// Refuses to replace `from` itself, and refuses to replace a store in use. A store is in use if its file is locked, or
/// if there is a log or a journal next to the file.
fn refuse_a_store_in_use(from: &Path, to: &Path) -> Result<(), SqliteError> {
    let Ok(there) = to.canonicalize() else { return Ok(()) };
    let is_itself = from.canonicalize().is_ok_and(|from| from == there);
    let is_locked = || File::open(&there).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
    let has_log = || ["-wal", "-shm", "-journal"].into_iter().any(|end| with_end(&there, end).exists());
    if is_itself || has_log() || is_locked() {
        return Err(SqliteError::Backup { path: to.to_owned(), source: "there is a store, which is in use".into() });
    }
    Ok(())
}

/// Creates an empty file for the copy, on Unix readable by its owner alone. Fails if the file exists.
pub(super) fn make(new: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.create_new(true).write(true).open(new)
}

async fn copy(from: &Path, new: &Path, to: &Path) -> Result<(), SqliteError> {
    let failed = |source| SqliteError::while_opening(from.to_owned(), source);
    let target = new
        .to_str()
        .ok_or_else(|| SqliteError::Backup { path: to.to_owned(), source: "its name must be text in UTF-8".into() })?;
    let mut reader = reading(from).connect().await.map_err(failed)?;
    match step(&mut reader).await.map_err(failed)? {
        None => return Err(SqliteError::NotAStore { path: from.to_owned() }),
        Some(step) if step > newest_script() => return Err(SqliteError::NewerSchema { path: from.to_owned(), step }),
        Some(_) => {}
    }
    let copied = sqlx::query("VACUUM INTO ?").bind(target).execute(&mut reader).await;
    copied.map_err(|source| SqliteError::Backup { path: to.to_owned(), source: Box::new(source) })?;
    reader.close().await.map_err(failed)
}

/// Reads every page of the copy, and returns the number of its keys. Fails if the copy is damaged.
async fn verify(new: &Path, to: &Path) -> Result<u64, SqliteError> {
    let damaged =
        |source: Box<dyn std::error::Error + Send + Sync>| SqliteError::Backup { path: to.to_owned(), source };
    let read = async |copy: &mut SqliteConnection| {
        let said: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *copy).await?;
        let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM delivery_key").fetch_one(&mut *copy).await?;
        Ok::<_, sqlx::Error>((said, keys))
    };
    let opened = reading(new).immutable(true).connect().await;
    let mut copy = opened.map_err(|error| damaged(error.into()))?;
    let (said, keys) = read(&mut copy).await.map_err(|error| damaged(error.into()))?;
    copy.close().await.map_err(|error| damaged(error.into()))?;
    if said != "ok" {
        return Err(damaged(format!("the copy is damaged: {said}").into()));
    }
    Ok(keys.unsigned_abs())
}

/// Returns the path where the copy is made, with a random name that no other backup uses.
fn copy_path(to: &Path) -> PathBuf {
    let mut bytes = [0; 8];
    SystemEntropy::default().fill(&mut bytes);
    with_end(to, &format!(".new.{}", data_encoding::HEXLOWER.encode(&bytes)))
}
