//! The body of a request, which reports to its connection how fast it arrives, and whether all of it was read.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::idle::{Conversation, Spare};

/// How many bytes of a body must arrive in a [`PERIOD`]. With fewer, the connection counts as idle.
const LEAST: usize = 4 << 10;
const PERIOD: Duration = Duration::from_secs(1);
/// After this many periods the connection may be closed to make room if none is idle, however much arrives. So a client
/// that sends a little more than [`LEAST`] cannot keep its place. Most bodies arrive within a few milliseconds.
const LONG: usize = 2;

/// The body of a request, which reports to its connection how fast it arrives, and whether the end was reached.
pub struct Heard {
    body: Incoming,
    unread: Unread,
    conversation: Arc<Conversation>,
    /// The end of the current period; `None` until the body was first waited for.
    end: Option<Pin<Box<Sleep>>>,
    /// How many bytes have arrived in the current period.
    came: usize,
    /// How many periods have ended.
    periods: usize,
    /// Why the connection may make room; `None` if it may not.
    spare: Option<Spare>,
}

/// Whether the client may still be sending the body of its request.
#[derive(Clone)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Heard {
    pub(crate) fn new(body: Incoming, conversation: Arc<Conversation>) -> (Self, Unread) {
        let unread = Unread(Arc::new(AtomicBool::new(!body.is_end_stream())));
        let heard = Self { body, unread: unread.clone(), conversation, end: None, came: 0, periods: 0, spare: None };
        (heard, unread)
    }

    /// Waits for more of the body, and rates its speed at the end of each period.
    fn wait(&mut self, context: &mut Context<'_>) {
        loop {
            let end = self.end.get_or_insert_with(|| Box::pin(sleep(PERIOD)));
            if end.as_mut().poll(context).is_pending() {
                return;
            }
            end.set(sleep(PERIOD));
            self.periods += 1;
            let is_slow = mem::take(&mut self.came) < LEAST;
            self.become_spare(if is_slow { Some(Spare::Idle) } else { (self.periods >= LONG).then_some(Spare::Body) });
        }
    }

    fn become_spare(&mut self, spare: Option<Spare>) {
        if mem::replace(&mut self.spare, spare) == spare {
            return;
        }
        self.conversation.wake();
        if let Some(spare) = spare {
            self.conversation.become_spare(spare);
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.become_spare(None);
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
            self.become_spare(None);
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
