//! The body of a response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use delivery_core::http::ReplyBody;
use rocket::tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

/// The body of a response, and the unread rest of the piece that Rocket is reading. If the length of the body is
/// unknown, Rocket tries to find it by seeking. Seeking fails, so Rocket sends the body in chunks.
pub(crate) struct Answer(pub ReplyBody, pub Bytes);

impl AsyncRead for Answer {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.1.is_empty() {
            match ready!(self.0.poll_piece(context)) {
                Some(piece) => self.1 = piece?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let fits = self.1.len().min(into.remaining());
        into.put_slice(&self.1.split_to(fits));
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Answer {
    fn start_seek(self: Pin<&mut Self>, _: io::SeekFrom) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
