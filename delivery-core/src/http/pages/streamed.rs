//! Forms with files, which are read while they arrive.

use std::future::ready;
use std::time::Duration;

use ::http::header;
use futures_util::{StreamExt, stream};
use multer::{Constraints, Field, Multipart, SizeLimit};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::{ApiError, PageRequest, SignedIn};
use crate::error::ErrorCode;
use crate::http::body::Pieces;

/// How long the head of each part of the multipart form may take to arrive. The contents of the files have other
/// deadlines.
const HEAD: Duration = Duration::from_mins(1);
/// The maximum length of each field that is not a file, in bytes. The CSRF token is the longest of them.
const TOKEN: u64 = 1 << 10;

/// A form whose CSRF token was checked, and whose other fields are read one after the other. The heads of its parts are
/// kept in memory. Only [`HEAD`] limits them, because only a signed-in seller can send such a form.
pub(super) struct StreamedForm<'f>(Multipart<'f>);

impl<'f> StreamedForm<'f> {
    /// Begins to read a form. The CSRF token must be its first field, so that no file of a forged form is read. The
    /// length of fields called `file` is not limited here.
    pub(super) async fn open(
        request: &PageRequest<'_>,
        seller: &SignedIn,
        pieces: Pieces<'f>,
    ) -> Result<Self, ApiError> {
        let kind = request.call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = multer::parse_boundary(kind.unwrap_or_default()).map_err(|_| ErrorCode::UnsupportedMediaType)?;
        let limits = Constraints::new().size_limit(SizeLimit::new().per_field(TOKEN).for_field("file", u64::MAX));
        // The form parser keeps all pieces that are ready in memory before it parses any of them. The pause after each
        // piece makes it parse the piece before it reads the next one. Without the pause, a file that arrives faster
        // than it is written would be kept in memory.
        let pause = || stream::once(yield_now()).filter_map(|()| ready(None));
        let pieces = pieces.flat_map(move |piece| stream::once(ready(piece)).chain(pause()));
        let mut form = Self(Multipart::with_constraints(pieces, boundary, limits));
        let token = match form.next().await? {
            Some(field) if field.name() == Some("csrf") => timeout(HEAD, field.text()).await.ok().and_then(Result::ok),
            _ => None,
        };
        seller.csrf.check(&token.unwrap_or_default())?;
        Ok(form)
    }

    pub(super) async fn next(&mut self) -> Result<Option<Field<'f>>, ApiError> {
        let field = timeout(HEAD, self.0.next_field()).await.map_err(|_| ApiError::MALFORMED)?;
        field.map_err(|_| ApiError::MALFORMED)
    }
}
