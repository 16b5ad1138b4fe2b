//! Stores the bytes of files in an object store that the host application chooses.
//!
//! An object is written once, under a random name, and never changed. Each file has a [row](crate::store::Files) in the
//! catalog. The row names the object with the bytes of the file. An object without a row belongs to an upload that is
//! in progress or was interrupted.
//!
//! The host application passes an [`ObjectStore`] to [`Builder::files`](crate::delivery::Builder::files). To let
//! clients fetch files directly from a storage provider, it also implements [`Links`].

mod local;
mod upload;

use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

pub(crate) use self::upload::{Broken, UploadError};
use crate::product::ObjectName;
use crate::store::StoreError;
use crate::throttle::log_seldom;

/// The default of [`Builder::max_file_size`](crate::delivery::Builder::max_file_size): 5 GiB.
pub(crate) const MAX_FILE_SIZE: u64 = 5 << 30;
/// How long a link to an object store is valid. This is enough, because a client that is redirected follows the link at
/// once.
const LINK: Duration = Duration::from_mins(5);
/// The maximum number of concurrent uploads. Each has up to two parts of 5 MiB in memory.
const UPLOADS: usize = 16;

/// Makes links with which clients fetch objects directly from an object store, such as the presigned links of a bucket.
///
/// # To ensure correctness
///
/// * A link gives access only to the object for which it was made. After its lifetime it gives access to nothing.
#[async_trait]
pub trait Links: Debug + Send + Sync + 'static {
    /// Returns a URL from which anybody can fetch an object with GET.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] if no link can be made now.
    async fn link(&self, to: LinkTo<'_>) -> Result<String, StoreError>;
}

/// The object for which a link is made, and the properties of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkTo<'a> {
    /// The path of the object.
    pub path: &'a Path,
    /// How long the link must be valid.
    pub lifetime: Duration,
    /// The `Content-Disposition` that the answer should have, so that a client saves the file under its name.
    pub disposition: &'a str,
    /// The `Content-Type` that the answer should have.
    pub media_type: &'a str,
}

/// The stream of the bytes of a file.
pub(crate) type Contents = BoxStream<'static, io::Result<Bytes>>;

/// The object store, with the objects of all files.
pub(crate) struct FileStore {
    objects: Arc<dyn ObjectStore>,
    /// Makes links with which clients fetch objects directly. If this is `None`, the service streams the objects
    /// itself.
    links: Option<Arc<dyn Links>>,
    max_size: u64,
    uploads: Semaphore,
}

/// An object that exists in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) object: ObjectName,
    pub(crate) modified_at: DateTime<Utc>,
}

impl FileStore {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, links: Option<Arc<dyn Links>>, max_size: u64) -> Self {
        Self { objects, links, max_size, uploads: Semaphore::new(UPLOADS) }
    }

    pub(crate) fn max_size(&self) -> u64 {
        self.max_size
    }

    /// Opens a range of the bytes of an object for reading. An object that is shorter than that counts as lost. An
    /// error while the bytes are read is logged, because the client only sees that the connection ends.
    pub(crate) async fn open(&self, object: ObjectName, range: Range<u64>) -> object_store::Result<Contents> {
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        // An object store refuses an empty range.
        if range.is_empty() {
            return Ok(futures_util::stream::empty().boxed());
        }
        let opened = self.objects.get_opts(&path(object), options).await?;
        if opened.range != range {
            let (path, source) = (object.to_string(), "the object is shorter than the file".into());
            return Err(object_store::Error::NotFound { path, source });
        }
        let log = move |error: &io::Error| {
            log_seldom!(warn, error = error, %object, "a file could not be read to its end");
        };
        Ok(match opened.payload {
            GetResultPayload::File(file, _) => local::read(file, range).inspect_err(log).boxed(),
            GetResultPayload::Stream(stream) => stream.map_err(io::Error::other).inspect_err(log).boxed(),
        })
    }

    /// Returns a link with which a client can fetch the object directly. Returns `None` if the service streams objects
    /// itself. The link is a secret, because anybody who has it can fetch the object.
    pub(crate) async fn link(
        &self,
        object: ObjectName,
        disposition: &str,
        media_type: &str,
    ) -> Result<Option<String>, StoreError> {
        let Some(links) = &self.links else { return Ok(None) };
        links.link(LinkTo { path: &path(object), lifetime: LINK, disposition, media_type }).await.map(Some)
    }

    /// Deletes an object. An object that does not exist counts as deleted.
    pub(crate) async fn delete(&self, object: ObjectName) -> object_store::Result<()> {
        match self.objects.delete(&path(object)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        }
    }

    /// Lists the objects whose paths have the form that this service uses, in no particular order.
    pub(crate) fn list(&self) -> BoxStream<'static, object_store::Result<Stored>> {
        let known = |meta: object_store::ObjectMeta| async move {
            let object = meta.location.filename().and_then(|name| name.parse().ok());
            let object = object.filter(|object| path(*object) == meta.location);
            Ok(object.map(|object| Stored { object, modified_at: meta.last_modified }))
        };
        self.objects.list(None).try_filter_map(known).boxed()
    }
}

/// Returns the path of an object in the object store. Each value of the first byte of the name has its own folder, so
/// that no folder becomes large.
#[must_use]
pub fn path(object: ObjectName) -> Path {
    let [first, ..] = object.to_bytes();
    Path::from(format!("{first:02x}/{object}"))
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("max_size", &self.max_size).finish_non_exhaustive()
    }
}
