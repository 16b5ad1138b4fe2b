//! The body of a reply. It is either a sequence of byte strings, called pieces, or a stream. Several replies may share
//! the memory of a piece. A stream, such as the bytes of a file, is read while it is sent.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::{Body, Frame, SizeHint};

/// A body that is read while it is sent.
pub(super) type Streamed = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of a [`Reply`](super::Reply).
#[derive(Default)]
pub struct ReplyBody {
    pieces: VecDeque<Bytes>,
    stream: Option<Streamed>,
    /// The number of remaining bytes; `None` if the stream has an unknown length.
    left: Option<u64>,
}

/// The stream that a reply sends. Clones of a reply share the stream. The first clone that is converted into a body
/// takes the stream. Reading the bodies of the other clones fails.
#[derive(Clone)]
pub(super) struct Sent(Arc<Mutex<Option<Streamed>>>);

impl Sent {
    pub(super) fn new(stream: Streamed) -> Self {
        Self(Arc::new(Mutex::new(Some(stream))))
    }

    /// Takes the shared stream. If another clone has already taken it, returns a stream that yields only an
    /// `UnexpectedEof` error instead.
    fn take(&self) -> Streamed {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.unwrap_or_else(|| Box::pin(stream::iter([Err::<Bytes, io::Error>(io::ErrorKind::UnexpectedEof.into())])))
    }
}

impl ReplyBody {
    pub(super) fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: VecDeque<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, stream: None, left: Some(left) }
    }

    /// Returns a body of the first `length` bytes of a stream, or of the whole stream if `length` is `None`.
    pub(super) fn of_stream(sent: &Sent, length: Option<u64>) -> Self {
        Self { pieces: VecDeque::new(), stream: Some(sent.take()), left: length }
    }

    /// Polls for the next piece of the body. A piece is never empty. Returns `None` at the end of the body.
    ///
    /// # Errors
    ///
    /// The error of the stream, if a file or the store cannot be read. `UnexpectedEof` if a stream is shorter than its
    /// known length, or if the body of another clone of the reply has taken the stream. The connection must then be
    /// closed, because the body is incomplete.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut piece = match self.pieces.pop_front() {
            Some(piece) => piece,
            None => match ready!(self.poll_stream(context)) {
                Some(Ok(piece)) => piece,
                ended => return Poll::Ready(ended),
            },
        };
        if let Some(left) = &mut self.left {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Poll::Ready(Some(Ok(piece)))
    }

    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(stream) = self.stream.as_mut().filter(|_| self.left != Some(0)) else { return Poll::Ready(None) };
        loop {
            match ready!(stream.as_mut().poll_next(context)) {
                Some(Ok(piece)) if piece.is_empty() => {}
                None if self.left.is_some() => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
                next => return Poll::Ready(next),
            }
        }
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
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBody").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn one_of_two_clones_has_the_stream_and_the_other_fails() {
        for length in [None, Some(3)] {
            let sent = Sent::new(Box::pin(stream::iter([Ok::<_, io::Error>(Bytes::from("abc"))])));
            let [mut first, mut second] = [sent.clone(), sent].map(|sent| ReplyBody::of_stream(&sent, length));
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(Some(Ok(piece))) = first.poll_piece(&mut context) else { panic!("a piece") };
            assert_eq!(piece, "abc");
            assert!(matches!(first.poll_piece(&mut context), Poll::Ready(None)));
            let Poll::Ready(Some(Err(error))) = second.poll_piece(&mut context) else { panic!("an error") };
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
