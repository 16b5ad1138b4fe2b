//! Letters as files: what happens without a mail server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{MailError, Mailer, Message, mime};

/// Writes each message as an `.eml` file into a folder. Mail programs open such files.
///
/// The folder (mode 0700) and the files (0600) are readable by their owner alone: they contain keys. A file is named
/// after its `Message-ID`, so that a letter sent twice is one file, and is complete and synced when it appears.
#[derive(Debug, Clone)]
pub struct FolderMailer {
    folder: PathBuf,
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
        Ok(Self { folder })
    }
}

#[async_trait]
impl Mailer for FolderMailer {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let bytes = mime::compose(message)?.formatted();
        let name: String = message.message_id.as_str().chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let folder = self.folder.clone();
        let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
        let failed = || MailError::transient("the letter's file cannot be written");
        written.map_err(|error| failed().because(error))?.map_err(|error| failed().because(error))
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(format!(".{name}.tmp"));
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.create(true).write(true).truncate(true).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, folder.join(format!("{name}.eml")))?;
    // The name is durable once the folder is.
    File::open(folder)?.sync_all()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '@')
}
