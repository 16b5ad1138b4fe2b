//! The body of a request, which tells the connection whether all of it was read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The body of a request, which tells its connection whether the end was reached.
pub struct Heard {
    body: Incoming,
    unread: Unread,
}

/// Whether the client may still be sending the body of its request.
#[derive(Clone)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Heard {
    pub(crate) fn new(body: Incoming) -> (Self, Unread) {
        let unread = Unread(Arc::new(AtomicBool::new(!body.is_end_stream())));
        (Self { body, unread: unread.clone() }, unread)
    }
}

impl Unread {
    pub(crate) fn is_unread(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Body for Heard {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.unread.0.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
