//! The lock on a database file, which ensures that only one process, and only one store in that process, uses the file.
//!
//! On Unix the lock is on the database file itself (`flock`, which SQLite does not use). So neither another name of the
//! file nor the deletion of a lock file gets around the lock.
//!
//! POSIX has a trap here: when a process closes *any* descriptor of a file, it loses the locks that SQLite holds on
//! that file. So a file that this process already has open is not opened again; it is recognised by its device and
//! inode. And a [`Lock`] is dropped only after SQLite has closed the file.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::SqliteError;
use super::path::folder;

/// The maximum number of retries if the lock is held, with a [`PAUSE`] before each retry. The lock of a closed store
/// may still be held for a moment if this process is starting another program: between `fork` and `exec`, the child
/// process has copies of all descriptors, and these copies hold the lock.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// The lock on a database file, held until nothing in this process uses the file any more.
#[derive(Debug)]
pub(super) struct Lock {
    /// Declared before `file`, so that it is dropped first. Closing a deleted file frees its inode. If a new file then
    /// gets the same inode, the claim on the old file must be gone.
    #[cfg(unix)]
    _claim: claim::Claim,
    #[cfg_attr(not(unix), expect(dead_code, reason = "it is kept only because closing it ends the lock"))]
    file: File,
}

impl Lock {
    /// Locks the file at `path`. Creates a missing file, on Unix readable by its owner alone.
    pub(super) async fn take(path: &Path) -> Result<Self, SqliteError> {
        for _ in 0..TRIES {
            let lock = Self::take_once(path).await?;
            // The file may have been replaced while this call waited for the lock.
            if lock.is_at(path) {
                return Ok(lock);
            }
        }
        Err(SqliteError::InUse { path: path.to_owned() })
    }

    #[cfg(unix)]
    fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |file: std::io::Result<std::fs::Metadata>| file.ok().map(|file| (file.dev(), file.ino()));
        identity(self.file.metadata()) == identity(std::fs::metadata(path))
    }

    #[cfg(not(unix))]
    fn is_at(&self, _: &Path) -> bool {
        true
    }

    async fn take_once(path: &Path) -> Result<Self, SqliteError> {
        let directory = folder(path);
        if !directory.is_dir() {
            return Err(SqliteError::NoDirectory { path: directory.to_owned() });
        }
        if path.is_dir() {
            let source = "it is a directory".into();
            return Err(SqliteError::Other { path: path.to_owned(), source });
        }
        // Declared before `claim`, because variables are dropped in reverse order. So if this returns an error, the
        // claim is dropped before the file is closed.
        let file;
        #[cfg(unix)]
        let claim = claim::Claim::of_existing(path)?;
        file =
            open(path).map_err(|source| SqliteError::ReadOnly { path: path.to_owned(), source: Box::new(source) })?;
        let mut tries = 0;
        while let Err(error) = file.try_lock() {
            match error {
                TryLockError::WouldBlock if tries < TRIES => tokio::time::sleep(PAUSE).await,
                TryLockError::WouldBlock => return Err(SqliteError::InUse { path: path.to_owned() }),
                TryLockError::Error(source) => {
                    return Err(SqliteError::Other { path: path.to_owned(), source: Box::new(source) });
                }
            }
            tries += 1;
        }
        Ok(Self {
            #[cfg(unix)]
            _claim: claim.map_or_else(|| claim::Claim::of(&file, path), Ok)?,
            file,
        })
    }
}

#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Opens a lock file next to the database file. On systems other than Unix, a lock on the database file itself would
/// keep SQLite out too.
#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(super::path::with_end(path, ".lock"))
}

#[cfg(unix)]
mod claim {
    use std::collections::BTreeSet;
    use std::fs::{self, File, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::super::SqliteError;

    /// The device and the inode of a file, which identify it.
    type Identity = (u64, u64);

    static OPEN: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

    /// Records in [`OPEN`] that this process has a file open. Dropping the claim removes the record.
    #[derive(Debug)]
    pub(super) struct Claim(Identity);

    impl Claim {
        /// Records that this process has the file at `path` open. Returns `None` if the file does not exist yet.
        pub(super) fn of_existing(path: &Path) -> Result<Option<Self>, SqliteError> {
            fs::metadata(path).ok().map(|metadata| Self::new(&metadata, path)).transpose()
        }

        pub(super) fn of(file: &File, path: &Path) -> Result<Self, SqliteError> {
            let metadata = file.metadata();
            let failed = |source| SqliteError::Other { path: path.to_owned(), source: Box::new(source) };
            Self::new(&metadata.map_err(failed)?, path)
        }

        fn new(metadata: &Metadata, path: &Path) -> Result<Self, SqliteError> {
            let identity = (metadata.dev(), metadata.ino());
            if open().insert(identity) { Ok(Self(identity)) } else { Err(SqliteError::InUse { path: path.to_owned() }) }
        }
    }

    impl Drop for Claim {
        fn drop(&mut self) {
            open().remove(&self.0);
        }
    }

    fn open() -> MutexGuard<'static, BTreeSet<Identity>> {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    /// A file system may reuse the inode of a deleted file for the next new file. The new file can be locked even if
    /// the lock on the deleted file is just being dropped.
    #[test]
    fn a_new_file_is_not_taken_for_a_deleted_one() {
        let rounds = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let folder = tempfile::tempdir().unwrap();
            for round in 0..2_000 {
                let path = folder.path().join(round.to_string());
                let lock = runtime.block_on(Lock::take(&path)).unwrap();
                std::fs::remove_file(&path).unwrap();
                drop(lock);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(rounds))));
    }
}
