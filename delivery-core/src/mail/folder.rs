//! Letters as files: what happens without a mail server.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Mutex as Turn, oneshot};

use super::{MailError, Mailer, Message, mime};

/// Writes each message as an `.eml` file into a folder. Mail programs open such files.
///
/// The folder (mode 0700) and the files (0600) are readable by their owner alone: they contain keys. A file is named
/// after its `Message-ID`, so that a letter sent twice is one file, and is complete and synced when it appears. One writes
/// at a time, for all that wait by then: they share the folder's sync, and leave the disk to the store.
#[derive(Clone)]
pub struct FolderMailer {
    folder: PathBuf,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    turn: Arc<Turn<()>>,
}

/// A letter that is not written yet.
struct Waiting {
    name: String,
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl FolderMailer {
    /// A mailer that writes into `folder`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if it cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&folder)?;
        Ok(Self { folder, waiting: Arc::default(), turn: Arc::default() })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Mailer for FolderMailer {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let bytes = mime::compose(message)?.formatted();
        let name = message.message_id.as_str().chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let (written, done) = oneshot::channel();
        self.waiting().push(Waiting { name, bytes, written });
        let turn = self.turn.clone().lock_owned().await;
        let letters = std::mem::take(&mut *self.waiting());
        if !letters.is_empty() {
            let folder = self.folder.clone();
            // It keeps the turn, and answers by itself: this sender may be cut off.
            tokio::task::spawn_blocking(move || {
                write(&folder, letters);
                drop(turn);
            });
        }
        let failed = || MailError::transient("the letter's file cannot be written");
        done.await.map_err(|error| failed().because(error))?.map_err(|error| failed().because(error))
    }
}

/// Writes letters under other names, syncs them, and lets them appear.
fn write(folder: &Path, letters: Vec<Waiting>) {
    let mut appeared = Vec::with_capacity(letters.len());
    for Waiting { name, bytes, written } in letters {
        let unfinished = folder.join(format!(".{name}.tmp"));
        let renamed = || fs::rename(&unfinished, folder.join(format!("{name}.eml")));
        match fill(&unfinished, &bytes).and_then(|()| renamed()) {
            Ok(()) => appeared.push(written),
            // Nobody may be waiting any more.
            Err(error) => drop(written.send(Err(error))),
        }
    }
    if appeared.is_empty() {
        return;
    }
    // A name is durable once the folder is.
    let durable = File::open(folder).and_then(|folder| folder.sync_all());
    for written in appeared {
        // An error is of one; the others get its like.
        let result = durable.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()));
        drop(written.send(result.copied()));
    }
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.create(true).write(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

impl fmt::Debug for FolderMailer {
    /// Letters that wait hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderMailer").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '@')
}
