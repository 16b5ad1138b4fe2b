//! A response body of which hyper buffers one chunk at a time.
//!
//! hyper asks for chunks until it has buffered as many bytes as the head of a request may have. If a client stopped
//! reading a download, all of them would stay in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame, SizeHint};

/// A body up to this length, in bytes, does not wait between chunks.
const SHORT: u64 = 32 << 10;

/// A body that returns its next chunk once the previous one is sent.
pub(crate) struct Chunks<B> {
    body: Pin<Box<B>>,
    /// `None` for a short body.
    turn: Option<Arc<Turn>>,
}

/// Whether a chunk is being sent.
#[derive(Default)]
struct Turn {
    is_taken: AtomicBool,
    next: AtomicWaker,
}

/// A chunk that is being sent, until it is dropped.
struct Chunk {
    bytes: Bytes,
    turn: Arc<Turn>,
}

impl<B: Body> Chunks<B> {
    pub(crate) fn new(body: B) -> Self {
        let is_short = body.size_hint().upper().is_some_and(|length| length <= SHORT);
        Self { body: Box::pin(body), turn: (!is_short).then(Arc::default) }
    }
}

impl Turn {
    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.next.register(context.waker());
        if self.is_taken.load(Ordering::Acquire) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.turn.is_taken.store(false, Ordering::Release);
        self.turn.next.wake();
    }
}

impl<B: Body<Data = Bytes>> Body for Chunks<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(turn) = self.turn.clone() else { return self.body.as_mut().poll_frame(context) };
        ready!(turn.poll(context));
        let frame = ready!(self.body.as_mut().poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|bytes| {
                    turn.is_taken.store(true, Ordering::Relaxed);
                    Bytes::from_owner(Chunk { bytes, turn })
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::Waker;

    use futures_util::stream;
    use http_body_util::{Full, StreamBody};

    use super::*;

    #[test]
    fn the_next_chunk_comes_when_the_one_before_is_sent() {
        let chunks = ["a", "b"].map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::from(chunk))));
        let mut body = Box::pin(Chunks::new(StreamBody::new(stream::iter(chunks))));
        let mut context = Context::from_waker(Waker::noop());
        for expected in ["a", "b"] {
            let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) else { panic!("a chunk") };
            assert_eq!(frame.data_ref().unwrap(), expected);
            assert!(body.as_mut().poll_frame(&mut context).is_pending());
        }
        assert!(body.as_mut().poll_frame(&mut context).is_ready());
    }

    #[test]
    fn a_short_body_does_not_wait() {
        let mut body = Box::pin(Chunks::new(Full::new(Bytes::from("short"))));
        let mut context = Context::from_waker(Waker::noop());
        let chunk = body.as_mut().poll_frame(&mut context);
        assert!(chunk.is_ready() && body.as_mut().poll_frame(&mut context).is_ready());
    }
}
