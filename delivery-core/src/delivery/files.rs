//! The files of products: uploads, downloads, and the daily deletion of objects that are no longer needed.

use std::collections::HashMap;
use std::future::ready;
use std::ops::Range;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{Stream, TryStreamExt};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::seller::Desk;
use super::tickets::TICKET;
use super::{Delivery, Error};
use crate::files::{Broken, Contents, FileStore, Stored, UploadError};
use crate::key::{Key, Ticket, TicketFor};
use crate::product::{File, FileName, MOST_FILES, MediaType, ObjectName, Product, ProductId};
use crate::store::{Files, StoreError};

/// How long the object of a file is kept after the file was replaced or deleted. Links to the file expire in the first
/// 24 hours of this time. A download that begins just before its link expires therefore still has 24 hours to finish.
/// An object without a row in the database is also kept this long after it was written, because its upload may not be
/// complete yet.
const KEPT: TimeDelta = TimeDelta::hours(48);
/// If many old objects have no row in the database, the service probably runs with a wrong database. No object is then
/// deleted. "Many" means more than `FEW_STRAYS`, and more than one in `STRAY_SHARE` of the old objects.
const FEW_STRAYS: usize = 10;
const STRAY_SHARE: usize = 10;
/// The number of rows that are read or deleted at a time.
const PAGE: usize = 1000;

/// The characters of a file name that are percent-encoded in a URL: all but the unreserved ones of RFC 3986.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A file that a seller uploads.
pub(crate) struct NewFile {
    pub(crate) product: ProductId,
    pub(crate) name: FileName,
    pub(crate) media_type: MediaType,
    /// The number of bytes that the request announces; `None` if it announces none.
    pub(crate) length: Option<u64>,
    /// The SHA-256 that the bytes must have; `None` if any bytes are accepted.
    pub(crate) sha256: Option<[u8; 32]>,
}

/// Why a file was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PutError {
    #[error("there is no such product")]
    UnknownProduct,
    #[error("the product has too many files")]
    TooMany,
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A file that a buyer may download, and the address of the download.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct FileLink {
    /// The file.
    pub file: File,
    /// The absolute URL of the download, which begins with the [base URL](super::Builder::base_url). Anybody who has
    /// this URL can download the file.
    pub url: String,
    /// When the URL expires.
    pub expires_at: DateTime<Utc>,
}

impl Delivery {
    /// Returns whether products can have files: the host application has set an object store, and the catalog keeps the
    /// rows of files.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.file_parts().is_some()
    }

    fn file_parts(&self) -> Option<(&dyn Files, &FileStore)> {
        let rows = self.inner.editor.as_deref()?.files()?;
        Some((rows, self.inner.files.as_ref()?))
    }

    fn file_parts_or_unsupported(&self) -> Result<(&dyn Files, &FileStore), StoreError> {
        self.file_parts().ok_or(StoreError::Unsupported)
    }

    /// Returns links to the files of a product, for the buyer who has opened it with this key. Counts no use: count a
    /// use before this call. A link is valid for 24 hours, or until the key expires if that is sooner.
    #[must_use]
    pub fn file_links(&self, key: &Key, product: &Product) -> Vec<FileLink> {
        self.links(key, product, self.inner.clock.now())
    }

    /// Like [`file_links`](Self::file_links), but the 24 hours begin at `opened_at`, when the use was counted. The
    /// links of a repeated request therefore expire at the same time as those of the first request.
    pub(crate) fn links(&self, key: &Key, product: &Product, opened_at: DateTime<Utc>) -> Vec<FileLink> {
        let files = if self.has_files() { product.files() } else { &[] };
        let link = |file: &File| {
            let ticket = Self::ticket_for(key, file.object, opened_at, TICKET);
            let text = ticket.text(&self.inner.keyring, TicketFor::File);
            let name = utf8_percent_encode(file.name.as_str(), IN_PATH);
            let url = format!("{}/api/file/{text}/{name}", self.inner.outbox.base_url);
            FileLink { file: file.clone(), url, expires_at: ticket.ends_at }
        };
        files.iter().map(link).collect()
    }

    /// Returns the file to which a verified ticket gives access, if the ticket is valid now. A ticket is a signed text
    /// in a download link.
    pub(crate) async fn file_of(&self, ticket: &Ticket) -> Result<File, Error> {
        let (rows, _) = self.file_parts().ok_or(Error::UnknownTicket)?;
        self.holder_of(ticket).await?;
        let product = self.inner.catalog.product(ticket.product).await?;
        let current =
            product.and_then(|product| product.files().iter().find(|file| file.object == ticket.object).cloned());
        match current {
            Some(file) => Ok(file),
            // The file was replaced or deleted since the ticket was made. Its row exists until its object is deleted.
            None => rows.file(ticket.product, ticket.object).await?.ok_or(Error::UnknownTicket),
        }
    }

    /// Returns the maximum size of a file, in bytes; 0 if the service has no object store.
    pub(crate) fn max_file_size(&self) -> u64 {
        self.inner.files.as_ref().map_or(0, FileStore::max_size)
    }

    /// Returns a new object name: 12 random bytes, and 4 bytes of their MAC, by which this service recognizes the name.
    fn new_object(&self) -> ObjectName {
        let mut bytes = [0; 16];
        self.inner.entropy.fill(&mut bytes);
        let (random, mark) = bytes.split_at_mut(12);
        mark.copy_from_slice(self.inner.keyring.mac("object", random).split_at(mark.len()).0);
        ObjectName::from_bytes(bytes)
    }

    /// Returns whether this service, or another server with the same signing secret, has made this name.
    fn is_ours(&self, object: ObjectName) -> bool {
        let bytes = object.to_bytes();
        let (random, mark) = bytes.split_at(12);
        self.inner.keyring.macs("object", random).any(|mac| mac.starts_with(mark))
    }

    /// Opens a range of the bytes of a file.
    pub(crate) async fn open_file(&self, file: &File, range: Range<u64>) -> Result<Contents, StoreError> {
        let (_, objects) = self.file_parts_or_unsupported()?;
        objects.open(file.object, range).await.map_err(objects_error)
    }

    /// Returns the URL of the file in the object store; `None` if this service streams files itself.
    pub(crate) async fn file_link(&self, file: &File, disposition: &str) -> Result<Option<String>, StoreError> {
        let (_, objects) = self.file_parts_or_unsupported()?;
        objects.link(file.object, disposition, file.media_type.as_str()).await
    }
}

impl Desk<'_> {
    /// Stores the bytes of a file as they arrive, then adds the file to its product. A file of the product with the
    /// same [folded](FileName::folded) name is replaced. Returns the new file. If this fails, the product is unchanged,
    /// unless the outcome is [unknown](StoreError::Unknown).
    pub(crate) async fn put_file(
        &self,
        new: NewFile,
        pieces: impl Stream<Item = Result<Bytes, Broken>> + Unpin,
    ) -> Result<File, PutError> {
        let (rows, objects) = self.delivery.file_parts_or_unsupported()?;
        let product = self.delivery.product(new.product).await?.ok_or(PutError::UnknownProduct)?;
        let folded = new.name.folded();
        let others = product.files().iter().filter(|file| file.name.folded() != folded).count();
        if others >= MOST_FILES {
            return Err(PutError::TooMany);
        }
        let object = self.delivery.new_object();
        let described = (new.name.disposition(), new.media_type.as_str().to_owned());
        let uploaded = objects.upload(object, (new.length, new.sha256), described, pieces).await?;
        let edit = self.edit();
        let file = File {
            object,
            name: new.name,
            size: uploaded.size,
            sha256: uploaded.sha256,
            media_type: new.media_type,
            added_at: edit.at,
        };
        let put = rows.put_file(new.product, file.clone(), edit).await;
        let refused = match put {
            Ok(Some(_)) => return Ok(file),
            Ok(None) => PutError::UnknownProduct,
            Err(StoreError::Refused { .. }) => PutError::TooMany,
            // The row may still be written. If it is not, `prune_files` deletes the object.
            Err(error @ StoreError::Unknown { .. }) => return Err(error.into()),
            Err(error) => error.into(),
        };
        // If this fails, `prune_files` deletes the object.
        let _ = objects.delete(object).await;
        Err(refused)
    }

    /// Deletes a file of a product. Its object stays for 48 hours, so that downloads that have begun can finish.
    /// Returns whether there was such a file.
    pub(crate) async fn delete_file(&self, product: ProductId, name: &FileName) -> Result<bool, StoreError> {
        let (rows, _) = self.delivery.file_parts_or_unsupported()?;
        rows.delete_file(product, name, self.edit()).await
    }
}

impl super::Maintenance<'_> {
    /// Deletes the objects of files that were replaced or deleted more than 48 hours ago. Also deletes objects that are
    /// more than 48 hours old and have no row in the database because their upload was interrupted. Returns the number
    /// of deleted objects. A [started](Delivery::start) service does this once a day.
    ///
    /// Objects that were not made with this service's signing secret stay, because another shop may have put its files
    /// into the same object store. Nothing is deleted if the database seems to be the wrong one, because
    ///
    /// - it has no rows of files at all, although there are objects older than 48 hours, or
    /// - more than 10 of the objects older than 48 hours, and more than a tenth of them, have no row.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store or the object store does not respond. Objects that were deleted before the error
    /// stay deleted.
    pub async fn prune_files(&self) -> Result<usize, StoreError> {
        let Some((rows, objects)) = self.delivery.file_parts() else { return Ok(0) };
        let now = self.delivery.inner.clock.now();
        let before = now.checked_sub_signed(KEPT).unwrap_or(DateTime::<Utc>::MIN_UTC);
        // List the objects before reading the rows. If an upload completes in between, its row is among those that are
        // read, so its object is not taken for one that nobody needs.
        let is_old = |stored: &Stored| stored.modified_at < before && self.delivery.is_ours(stored.object);
        let old: Vec<Stored> =
            objects.list().try_filter(|stored| ready(is_old(stored))).try_collect().await.map_err(objects_error)?;
        let known = known(rows).await?;
        let former = known.iter().filter(|(_, ended_at)| ended_at.is_some_and(|ended_at| ended_at < before));
        let former: Vec<ObjectName> = former.map(|(object, _)| *object).collect();
        let strays: Vec<ObjectName> =
            old.iter().map(|stored| stored.object).filter(|object| !known.contains_key(object)).collect();
        if known.is_empty() && !strays.is_empty() || strays.len() > FEW_STRAYS.max(old.len() / STRAY_SHARE) {
            // This may be the database of another shop, or an old copy of this shop's database.
            tracing::error!(
                objects = strays.len(),
                "many objects in the store of files belong to no product in this database: none of them is deleted"
            );
            return Ok(0);
        }
        // Continue after an error: the other objects are to be deleted nevertheless.
        let (mut deleted, mut failed) = (Vec::new(), None);
        for object in former.into_iter().chain(strays) {
            match objects.delete(object).await {
                Ok(()) => deleted.push(object),
                Err(error) => failed = Some(error),
            }
        }
        // Delete the rows last, and only those of deleted objects. An object that could not be deleted keeps its row,
        // by which the next call finds it.
        for page in deleted.chunks(PAGE) {
            rows.forget_files(page).await?;
        }
        match failed {
            Some(error) => Err(objects_error(error)),
            None => Ok(deleted.len()),
        }
    }
}

/// Returns every object that has a row, with the time at which its file was replaced or deleted; `None` for a current
/// file.
async fn known(rows: &dyn Files) -> Result<HashMap<ObjectName, Option<DateTime<Utc>>>, StoreError> {
    let (mut known, mut after) = (HashMap::new(), None);
    loop {
        let page = rows.file_rows(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(known) };
        after = Some(last.object);
        known.extend(page.iter().map(|row| (row.object, row.ended_at)));
    }
}

fn objects_error(error: object_store::Error) -> StoreError {
    match error {
        // The object was lost, so a retry does not help.
        object_store::Error::NotFound { .. } => StoreError::corrupt_because("a file without its object", error),
        error => StoreError::unavailable_because("the object store of files", error),
    }
}
