//! Forms with files, which are read while they arrive.

use std::future::ready;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::http::header;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use multer::{Constraints, Field, Multipart, SizeLimit};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::{ApiError, PageRequest, SignedIn};
use crate::error::ErrorCode;
use crate::files::Broken;
use crate::http::body::Pieces;

/// How long the head of each part of the multipart form may take to arrive. The contents of the files have other
/// deadlines.
const HEAD: Duration = Duration::from_mins(1);
/// The maximum number of bytes that may arrive before each file, and after the last one. Browsers send a few hundred.
const HEAD_LENGTH: usize = 256 << 10;
/// The form parser gets the body in pieces of at most this many bytes. Two pieces must fit into [`HEAD_LENGTH`],
/// because the head of a file may begin in one piece and end in the next.
const PIECE: usize = 64 << 10;
/// The maximum length of the field with the CSRF token, in bytes.
const TOKEN: u64 = 1 << 10;

/// A form whose CSRF token was checked, and whose other fields are read one after the other.
pub(super) struct StreamedForm<'f> {
    parts: Multipart<'f>,
    /// The number of bytes that may still arrive before the next file. The number is limited because the parser of the
    /// form keeps these bytes in memory.
    left: Arc<AtomicUsize>,
}

impl<'f> StreamedForm<'f> {
    /// Begins to read a form. The CSRF token must be its first field, so that no file of a forged form is read.
    pub(super) async fn open(
        request: &PageRequest<'_>,
        seller: &SignedIn,
        pieces: Pieces<'f>,
    ) -> Result<Self, ApiError> {
        let kind = request.call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = multer::parse_boundary(kind.unwrap_or_default()).map_err(|_| ErrorCode::UnsupportedMediaType)?;
        let limits = Constraints::new().size_limit(SizeLimit::new().for_field("csrf", TOKEN));
        let left = Arc::new(AtomicUsize::new(HEAD_LENGTH));
        let counted = left.clone();
        // The form parser reads all pieces that are ready before it parses any of them. The pause after each piece
        // makes it parse the piece before it reads the next one. Without the pause, bytes of a file that arrive
        // together with the end of the previous file would count as the file's head.
        let pause = || stream::once(yield_now()).filter_map(|()| ready(None));
        let pieces = pieces.flat_map(|piece| stream::iter(cut(piece)));
        let pieces = pieces.flat_map(move |piece| stream::once(ready(piece)).chain(pause()));
        let pieces = pieces.map(move |piece| {
            let piece = piece?;
            let before = counted.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(piece.len()));
            before.map(|_| piece).map_err(|_| Broken)
        });
        let mut form = Self { parts: Multipart::with_constraints(pieces, boundary, limits), left };
        let token = match form.next().await? {
            Some(field) if field.name() == Some("csrf") => timeout(HEAD, field.text()).await.ok().and_then(Result::ok),
            _ => None,
        };
        seller.csrf.check(&token.unwrap_or_default())?;
        Ok(form)
    }

    pub(super) async fn next(&mut self) -> Result<Option<Field<'f>>, ApiError> {
        let field = timeout(HEAD, self.parts.next_field()).await.map_err(|_| ApiError::MALFORMED)?;
        field.map_err(|_| ApiError::MALFORMED)
    }

    /// Call this before the content of a file is read. This type does not limit the length of a file.
    pub(super) fn begin_file(&self) {
        self.left.store(usize::MAX, Relaxed);
    }

    /// Call this after the content of a file was read.
    pub(super) fn end_file(&self) {
        self.left.store(HEAD_LENGTH, Relaxed);
    }
}

/// Cuts a piece of the body into pieces of at most [`PIECE`] bytes.
fn cut<E>(piece: Result<Bytes, E>) -> impl Iterator<Item = Result<Bytes, E>> {
    let (mut bytes, mut error) = piece.map_or_else(|error| (Bytes::new(), Some(error)), |bytes| (bytes, None));
    iter::from_fn(move || match error.take() {
        None if bytes.is_empty() => None,
        None => Some(Ok(bytes.split_to(bytes.len().min(PIECE)))),
        Some(error) => Some(Err(error)),
    })
}
