//! The body of a reply: a sequence of byte strings, called pieces. Several replies may share the memory of a piece. The
//! bytes of a file may follow, which are read while they are sent.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};

/// The bytes of a file, as they are read.
type Contents = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of a [`Reply`](super::Reply), of known length.
#[derive(Default)]
pub struct ReplyBody {
    pieces: VecDeque<Bytes>,
    file: Option<Contents>,
    /// The number of remaining bytes.
    left: u64,
}

/// The bytes of a file that a reply sends. Clones of a reply share them, and the first clone that is sent has them.
#[derive(Clone)]
pub(super) struct Sent(Arc<Mutex<Option<Contents>>>);

impl Sent {
    #[cfg(feature = "files")]
    pub(super) fn new(contents: Contents) -> Self {
        Self(Arc::new(Mutex::new(Some(contents))))
    }

    fn take(&self) -> Option<Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ReplyBody {
    pub(super) fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: VecDeque<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, file: None, left }
    }

    /// Returns a body of `length` bytes of a file.
    pub(super) fn of_file(sent: &Sent, length: u64) -> Self {
        Self { pieces: VecDeque::new(), file: sent.take(), left: length }
    }

    /// Returns the number of remaining bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Returns whether no bytes remain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Waits for the next piece of the body, which is never empty. Returns `None` at the end of the body.
    ///
    /// # Errors
    ///
    /// The error with which reading a file failed. The connection must then be closed, because the body is incomplete.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(piece) = self.pieces.pop_front() {
            self.left -= piece.len() as u64;
            return Poll::Ready(Some(Ok(piece)));
        }
        while let (1.., Some(file)) = (self.left, &mut self.file) {
            match std::task::ready!(file.as_mut().poll_next(context)) {
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(mut piece)) => {
                    piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                    self.left -= piece.len() as u64;
                    return Poll::Ready(Some(Ok(piece)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            }
        }
        Poll::Ready(None)
    }
}

impl From<Bytes> for ReplyBody {
    fn from(body: Bytes) -> Self {
        Self::new([body])
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.poll_piece(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBody").field("left", &self.left).finish_non_exhaustive()
    }
}
