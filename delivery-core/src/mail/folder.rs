//! Writes e-mails to files, for host applications without a mail server.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Mutex as Turn, oneshot};

use super::{MailError, Mailer, Message, mime};
use crate::email::Email;

/// Writes each message as an `.eml` file into a folder. Mail programs open such files.
///
/// On Unix, only the owner can read the folder (mode 0700) and the files (0600), because the files contain keys. A file
/// is named after its `Message-ID`, so that an e-mail that is sent twice is only one file. A file is complete and
/// synced when it appears. Only one task writes at a time. It writes all messages that are waiting, with a single sync
/// of the folder, which leaves more of the disk's capacity to the store.
#[derive(Clone)]
pub struct FolderMailer {
    folder: PathBuf,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    turn: Arc<Turn<()>>,
}

/// An e-mail that has not been written yet.
struct Waiting {
    name: String,
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl FolderMailer {
    /// Returns a mailer that writes into `folder`, and creates the folder if it is missing.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the folder cannot be created.
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
        let messages = std::mem::take(&mut *self.waiting());
        if !messages.is_empty() {
            let folder = self.folder.clone();
            // The blocking task holds the lock and reports the results itself, because this future may be cancelled.
            tokio::task::spawn_blocking(move || {
                write(&folder, messages);
                drop(turn);
            });
        }
        let failed = || MailError::transient("the e-mail's file cannot be written");
        done.await.map_err(|error| failed().because(error))?.map_err(|error| failed().because(error))
    }

    /// Deletes the files of e-mails to `address`.
    async fn forget(&self, address: &Email) -> Result<(), MailError> {
        let _turn = self.turn.clone().lock_owned().await;
        // If a waiting e-mail is dropped, its channel closes. The call of `send` that waits for this channel then
        // returns an error.
        self.waiting().retain(|waiting| !mime::is_to(&waiting.bytes, address));
        let (folder, address) = (self.folder.clone(), address.clone());
        let forgotten = tokio::task::spawn_blocking(move || forget(&folder, &address)).await;
        let failed = || MailError::transient("the e-mails' files cannot be deleted");
        forgotten.map_err(|error| failed().because(error))?.map_err(|error| failed().because(error))
    }

    fn reaches_nobody(&self) -> bool {
        true
    }
}

/// Deletes the files of e-mails to `address`, including temporary files that a crash left behind.
fn forget(folder: &Path, address: &Email) -> io::Result<()> {
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let is_mail = path.extension().is_some_and(|extension| extension == "eml" || extension == "tmp");
        if is_mail && mime::is_to(&fs::read(&path)?, address) {
            fs::remove_file(&path)?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Writes e-mails under temporary names, syncs the files, and renames them.
fn write(folder: &Path, messages: Vec<Waiting>) {
    let mut appeared = Vec::with_capacity(messages.len());
    for Waiting { name, bytes, written } in messages {
        let unfinished = folder.join(format!(".{name}.tmp"));
        let renamed = || fs::rename(&unfinished, folder.join(format!("{name}.eml")));
        match fill(&unfinished, &bytes).and_then(|()| renamed()) {
            Ok(()) => appeared.push(written),
            // The receiver of the result is gone if the `send` that waits for it was cancelled. This is no failure.
            Err(error) => drop(written.send(Err(error))),
        }
    }
    if appeared.is_empty() {
        return;
    }
    // A rename is durable only after the folder was synced.
    let durable = File::open(folder).and_then(|folder| folder.sync_all());
    for written in appeared {
        // `io::Error` cannot be cloned, so each waiting call of `send` gets an error with the same kind and text.
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
    /// Omits the waiting e-mails, because they contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderMailer").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '@')
}
