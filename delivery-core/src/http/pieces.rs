//! The body of a reply: a sequence of byte strings, called pieces. Several replies may share the memory of a piece.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The body of a [`Reply`](super::Reply), entirely in memory and of known length.
#[derive(Clone, Default)]
pub struct ReplyBody {
    pieces: VecDeque<Bytes>,
}

impl ReplyBody {
    pub(super) fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self { pieces: pieces.into_iter().filter(|piece| !piece.is_empty()).collect() }
    }

    /// Returns the number of remaining bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Returns whether no bytes remain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Removes and returns the next piece of the body, which is never empty. Returns `None` at the end of the body.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        self.pieces.pop_front()
    }
}

impl From<Bytes> for ReplyBody {
    fn from(body: Bytes) -> Self {
        Self::new([body])
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next_piece().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}
