//! The database rows of products' files.

use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StoreError;
use crate::ledger::Edit;
use crate::product::{File, FileName, ObjectName, ProductId};

/// The database rows of products' files. The bytes are elsewhere: each row names an object in an object store.
///
/// A row is current until its file is replaced or deleted. It then becomes a former row, which is kept until its object
/// was deleted. [`Product::files`](crate::product::Product::files) returns the current files of a product.
///
/// # To ensure correctness
///
/// * Write a change and its audit entry in one commit, and serve the change on all servers within a second.
/// * Never keep two current files of a product whose names are equal without regard to case, even if two calls add them
///   at once.
/// * Keep every row until [`forget_files`](Self::forget_files) deletes it, because the service deletes objects that no
///   row names.
#[async_trait]
pub trait Files: Debug + Send + Sync + 'static {
    /// Adds a file to a product. If the product already has a file with this name, without regard to case, that file
    /// becomes a former file. Returns whether there was such a file. If there is no such product, adds nothing and
    /// returns `None`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] if the product already has [`MOST_FILES`](crate::product::MOST_FILES) other files.
    /// Another [`StoreError`] if nothing was added.
    async fn put_file(&self, product: ProductId, file: File, edit: Edit) -> Result<Option<bool>, StoreError>;

    /// Turns the product's current file with this name into a former file. The case of the name is ignored. Returns
    /// whether there was such a file.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was changed.
    async fn delete_file(&self, product: ProductId, name: &FileName, edit: Edit) -> Result<bool, StoreError>;

    /// Returns the product's file whose bytes are in `object`, whether the file is current or not; `None` if there is
    /// no such row.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the rows cannot be read.
    async fn file(&self, product: ProductId, object: ObjectName) -> Result<Option<File>, StoreError>;

    /// Returns at most `limit` rows of files, current ones and former (replaced or deleted) ones, ordered by the names
    /// of their objects. If `after` is given, only rows with greater object names are returned.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the rows cannot be read.
    async fn file_rows(&self, after: Option<ObjectName>, limit: usize) -> Result<Vec<FileRow>, StoreError>;

    /// Deletes the rows of former (replaced or deleted) files whose bytes are in these objects. Rows of current files
    /// stay.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some rows may not have been deleted.
    async fn forget_files(&self, objects: &[ObjectName]) -> Result<(), StoreError>;
}

/// A file's row, without the name and the other properties of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct FileRow {
    /// The object with the file's bytes.
    pub object: ObjectName,
    /// When the file was replaced or deleted, to the millisecond; `None` if it is current.
    pub ended_at: Option<DateTime<Utc>>,
}
