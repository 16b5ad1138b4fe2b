//! The body of a request, which tells the connection whether it comes, and whether all of it was read.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::idle::Conversation;

/// How much must come in a [`PERIOD`] of a body that is waited for, in bytes, or its connection counts as idle.
const LEAST: usize = 4 << 10;
const PERIOD: Duration = Duration::from_secs(1);

/// The body of a request, which tells its connection whether it comes, and whether the end was reached.
pub struct Heard {
    body: Incoming,
    unread: Unread,
    conversation: Arc<Conversation>,
    /// When the period ends, once something was waited for.
    end: Option<Pin<Box<Sleep>>>,
    /// How many bytes have come in it.
    came: usize,
    /// Whether the connection was told that it is idle.
    is_slow: bool,
}

/// Whether the client may still be sending the body of its request.
#[derive(Clone)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Heard {
    pub(crate) fn new(body: Incoming, conversation: Arc<Conversation>) -> (Self, Unread) {
        let unread = Unread(Arc::new(AtomicBool::new(!body.is_end_stream())));
        let heard = Self { body, unread: unread.clone(), conversation, end: None, came: 0, is_slow: false };
        (heard, unread)
    }

    /// Nothing more has come yet.
    fn wait(&mut self, context: &mut Context<'_>) {
        loop {
            let end = self.end.get_or_insert_with(|| Box::pin(sleep(PERIOD)));
            if end.as_mut().poll(context).is_pending() {
                return;
            }
            end.set(sleep(PERIOD));
            if mem::take(&mut self.came) < LEAST {
                self.is_slow = true;
                self.conversation.rest();
            } else {
                self.goes_on();
            }
        }
    }

    /// It comes, or nobody waits for it any more.
    fn goes_on(&mut self) {
        if mem::take(&mut self.is_slow) {
            self.conversation.wake();
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.goes_on();
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
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            self.wait(context);
            return Poll::Pending;
        };
        if let Some(Ok(frame)) = &frame {
            self.came += frame.data_ref().map_or(0, Bytes::len);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.unread.0.store(false, Ordering::Relaxed);
            self.goes_on();
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
