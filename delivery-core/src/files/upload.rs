//! Writes an object while its bytes arrive.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use object_store::buffered::BufWriter;
use object_store::{Attribute, AttributeValue, Attributes};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{FileStore, path};
use crate::product::ObjectName;

/// How long each MiB of an upload may take to arrive.
const A_MEBIBYTE: Duration = Duration::from_mins(1);
/// How long a whole upload may take: half of the time after which an object without a row in the catalog is deleted.
const LONGEST: Duration = Duration::from_hours(24);
/// The number of bytes that are written at a time. Object stores accept no smaller parts, except as the last one.
const PART: usize = 5 << 20;
/// The number of parts of one upload that are written at the same time.
const PARTS: usize = 1;

/// The connection ended before the whole body had arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the connection ended before the whole body had arrived")]
pub(crate) struct Broken;

/// The size and the digest of an uploaded object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uploaded {
    pub(crate) size: u64,
    pub(crate) sha256: [u8; 32],
}

/// Why an upload failed. The upload leaves no object, except perhaps after an error of the object store.
#[derive(Debug, Error)]
pub(crate) enum UploadError {
    #[error("the file is larger than allowed")]
    TooLarge,
    #[error("the upload broke off")]
    Broken,
    #[error("the upload is too slow")]
    Late,
    #[error("the file does not have the given digest")]
    WrongDigest,
    #[error("too many uploads at the same time")]
    Busy,
    #[error("the object store failed")]
    Objects(#[from] object_store::Error),
}

/// A guard that deletes the written parts of an upload if the upload fails or the client disconnects before the whole
/// file has arrived. In both cases the guard is dropped while it still holds the writer. After a crash, only the object
/// store can delete the parts that are left, for example by the lifecycle rules of a bucket.
struct Abort(Option<BufWriter>);

impl Drop for Abort {
    fn drop(&mut self) {
        if let (Some(mut writer), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move { writer.abort().await });
        }
    }
}

impl FileStore {
    /// Writes a new object with the bytes of `pieces`. If `length` or `sha256` is given, the bytes must match it. When
    /// this returns, the object is as durable as the object store makes it.
    pub(crate) async fn upload(
        &self,
        object: ObjectName,
        (length, sha256): (Option<u64>, Option<[u8; 32]>),
        (disposition, media_type): (String, String),
        mut pieces: impl Stream<Item = Result<Bytes, Broken>> + Unpin,
    ) -> Result<Uploaded, UploadError> {
        let _turn = self.uploads.try_acquire().map_err(|_| UploadError::Busy)?;
        let writer = BufWriter::with_capacity(self.objects.clone(), path(object), PART).with_max_concurrency(PARTS);
        // Store these headers with the object, because the links of some providers cannot set them. Without links they
        // are not needed, and an upload with headers would fail if the object store is a local folder.
        let writer = if self.links.is_some() {
            let attributes = [
                (Attribute::ContentDisposition, AttributeValue::from(disposition)),
                (Attribute::ContentType, AttributeValue::from(media_type)),
            ];
            writer.with_attributes(attributes.into_iter().collect::<Attributes>())
        } else {
            writer
        };
        let mut guard = Abort(None);
        let writer = guard.0.insert(writer);
        let received = timeout(LONGEST, self.receive(writer, &mut pieces)).await.unwrap_or(Err(UploadError::Late));
        let uploaded = received.and_then(|uploaded| {
            if length.is_some_and(|length| length != uploaded.size) {
                // Rocket reports no error if the connection ends before the whole body has arrived.
                Err(UploadError::Broken)
            } else if sha256.is_some_and(|sha256| sha256 != uploaded.sha256) {
                Err(UploadError::WrongDigest)
            } else {
                Ok(uploaded)
            }
        });
        let uploaded = uploaded?;
        if let Some(mut writer) = guard.0.take() {
            writer.shutdown().await.map_err(object_store_error)?;
        }
        Ok(uploaded)
    }

    async fn receive(
        &self,
        writer: &mut BufWriter,
        pieces: &mut (impl Stream<Item = Result<Bytes, Broken>> + Unpin),
    ) -> Result<Uploaded, UploadError> {
        let (mut size, mut hash) = (0_u64, Sha256::new());
        loop {
            // Each mebibyte has a deadline of its own, so that a large file may take long, but a client that sends
            // nothing is cut off soon.
            let mut mebibyte = 0;
            let receive = async {
                while mebibyte < 1 << 20 {
                    let Some(piece) = pieces.next().await else { return Ok(false) };
                    let piece = piece.map_err(|Broken| UploadError::Broken)?;
                    mebibyte += piece.len() as u64;
                    if size + mebibyte > self.max_size {
                        return Err(UploadError::TooLarge);
                    }
                    hash.update(&piece);
                    writer.put(piece).await?;
                }
                Ok(true)
            };
            let goes_on = timeout(A_MEBIBYTE, receive).await.map_err(|_| UploadError::Late)??;
            size += mebibyte;
            if !goes_on {
                return Ok(Uploaded { size, sha256: hash.finalize().into() });
            }
        }
    }
}

fn object_store_error(error: std::io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "files", source: error.into() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::{StreamExt, TryStreamExt, stream};
    use object_store::memory::InMemory;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_of_an_upload() {
        let digest = |bytes: &[u8]| Some(<[u8; 32]>::from(Sha256::digest(bytes)));
        for (pieces, seconds, length, expected, kept) in [
            (vec![], 0, None, None, Ok(0)),
            (vec![1, 0, 2], 0, None, digest(b"xxx"), Ok(3)),
            (vec![MIB; 12], 0, None, None, Ok(12 * MIB)),
            (vec![MIB; 5], 59, None, None, Ok(5 * MIB)),
            (vec![MIB / 2; 2], 59, None, None, Err("the upload is too slow")),
            (vec![1], 61, None, None, Err("the upload is too slow")),
            (vec![1], 0, None, digest(b"y"), Err("the file does not have the given digest")),
            (vec![MIB; 13], 0, None, None, Err("the file is larger than allowed")),
            (vec![2], 0, Some(2), None, Ok(2)),
            (vec![2], 0, Some(3), None, Err("the upload broke off")),
        ] {
            let files = FileStore::new(Arc::new(InMemory::new()), None, 12 * MIB as u64);
            let body = stream::iter(pieces.clone()).then(async |length| {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(Bytes::from(vec![b'x'; length]))
            });
            let object = ObjectName::from_bytes([7; 16]);
            let uploaded =
                files.upload(object, (length, expected), (String::new(), String::new()), Box::pin(body)).await;
            let size =
                uploaded.as_ref().map(|uploaded| usize::try_from(uploaded.size).unwrap()).map_err(ToString::to_string);
            assert_eq!(size, kept.map_err(str::to_owned), "{pieces:?} {seconds} s");
            let listed: Vec<_> = files.list().map_ok(|stored| stored.object).try_collect().await.unwrap();
            assert_eq!(listed, kept.map(|_| object).into_iter().collect::<Vec<_>>(), "{pieces:?}");
            if let Ok(uploaded) = uploaded {
                let whole = files.open(object, 0..uploaded.size).await.unwrap();
                let whole = whole.try_collect::<Vec<_>>().await.unwrap().concat();
                assert_eq!(digest(&whole), Some(uploaded.sha256));
            }
        }
    }

    #[tokio::test]
    async fn an_upload_that_breaks_off_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let objects = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let files = FileStore::new(Arc::new(objects), None, u64::MAX);
        let body = stream::iter([Ok(Bytes::from(vec![0; 12 * MIB])), Err(Broken)]);
        let refused =
            files.upload(ObjectName::from_bytes([7; 16]), (None, None), (String::new(), String::new()), body).await;
        assert!(matches!(refused, Err(UploadError::Broken)), "{refused:?}");
        assert_eq!(files.list().count().await, 0);
        // The parts are deleted in the background. Wait for this.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        }
        let left = std::fs::read_dir(folder.path().join("07")).map(Iterator::count);
        assert_eq!(left.unwrap_or_default(), 0);
    }
}
