//! The settings of the builder for the files of products.

use std::sync::Arc;

use object_store::ObjectStore;

use super::Builder;
use crate::files::Links;

impl Builder {
    /// Keeps the files of products in this object store, such as a folder or a bucket. Without this call, products have
    /// no files.
    ///
    /// No other program may write to this object store. If programs share a bucket, give each of them a prefix of its
    /// own. Objects must survive a crash once they are written; a folder needs
    /// [`LocalFileSystem::with_fsync`](object_store::local::LocalFileSystem::with_fsync).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use delivery_core::{Delivery, mail::FolderMailer, store::SqliteStore};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (store, mail) = (folder.path().join("delivery.db"), folder.path().join("mail"));
    /// # let store = Arc::new(SqliteStore::open(store).await?);
    /// # let mailer = Arc::new(FolderMailer::open(mail)?);
    /// # let path = folder.path();
    /// use delivery_core::object_store::local::LocalFileSystem;
    ///
    /// let files = LocalFileSystem::new_with_prefix(path)?.with_fsync(true);
    /// let delivery = Delivery::builder(store, mailer, "a signing secret that is kept".parse()?)
    ///     .files(Arc::new(files))
    ///     .build();
    /// assert!(delivery.has_files());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn files(mut self, objects: Arc<dyn ObjectStore>) -> Self {
        self.files = Some(objects);
        self
    }

    /// Redirects each download to a link that `links` makes, such as a presigned link of a bucket. The client then
    /// fetches the file directly from the object store of [`files`](Self::files). Without this call, the service
    /// streams files.
    #[must_use]
    pub fn file_links(mut self, links: Arc<dyn Links>) -> Self {
        self.file_links = Some(links);
        self
    }

    /// Sets the maximum size of a file, in bytes. The default is 5 GiB.
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = bytes;
        self
    }
}
