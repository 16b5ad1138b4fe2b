//! The lock that gives one process, and one store in it, a database file.
//!
//! On Unix the lock is on the file itself (`flock`, which SQLite does not use), so neither another name of the file nor
//! deleting a lock file gets around it. POSIX has a trap here: when a process closes *any* descriptor of a file, it
//! loses the locks that SQLite holds on that file. So a file that this process already has open is recognised by device
//! and inode without opening it, and [`Lock`] is dropped last.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::SqliteError;

/// How often a held lock is tried again, and after what pause. A program that this process is starting has copies of
/// all descriptors between `fork` and `exec`, and so holds the lock of a store that was closed in the meantime.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// The lock on a database file, held until everybody in this process is done with the file.
#[derive(Debug)]
pub(super) struct Lock {
    #[cfg_attr(not(unix), expect(dead_code, reason = "the lock ends with it"))]
    file: File,
    #[cfg(unix)]
    _claim: claim::Claim,
}

impl Lock {
    /// Locks the file at `path`. Creates a missing file, on Unix readable by its owner alone.
    pub(super) async fn take(path: &Path) -> Result<Self, SqliteError> {
        for _ in 0..TRIES {
            let lock = Self::take_once(path).await?;
            // The file may have been replaced while this waited for the lock.
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
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !directory.is_dir() {
            return Err(SqliteError::NoDirectory { path: directory.to_owned() });
        }
        if path.is_dir() {
            let source = "it is a directory".into();
            return Err(SqliteError::Other { path: path.to_owned(), source });
        }
        #[cfg(unix)]
        let claim = claim::Claim::of_existing(path)?;
        let file =
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

/// Opens a lock file beside the database file: on other systems a lock on the file itself would keep SQLite out too.
#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    OpenOptions::new().create(true).truncate(false).write(true).open(beside)
}

#[cfg(unix)]
mod claim {
    use std::collections::BTreeSet;
    use std::fs::{self, File, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::super::SqliteError;

    /// Device and inode.
    type Identity = (u64, u64);

    static OPEN: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

    /// A file that this process has open; dropping the claim releases it.
    #[derive(Debug)]
    pub(super) struct Claim(Identity);

    impl Claim {
        /// Claims the file at `path`; returns `None` if it does not exist yet.
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
