//! Which connection makes room when all places are taken: the one that has been idle longest; if none is idle, the one whose
//! request's body has been coming longest, once that is two seconds.
//!
//! A connection is idle until the head of its first request has come, from the end of an answer until the head of the next
//! request has come, and while next to nothing comes of the body of a request. A client that is slow keeps no place. The first
//! request of a new connection may be on its way when it is chosen: it is given [a moment](MOMENT).

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::sleep;

/// How long a new connection may take to bring its first request before it is closed for others.
const MOMENT: Duration = Duration::from_millis(250);

/// The connections of a server that may make room. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Idle(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Numbers are given in the order of time.
    last: u64,
    /// How each that is idle is told to close.
    idle: BTreeMap<u64, Arc<Notify>>,
    /// The same for those whose body has been coming for long.
    bodies: BTreeMap<u64, Arc<Notify>>,
    /// How many need room.
    wishes: usize,
    /// For how many of them a connection closes.
    granted: usize,
}

/// Why a connection may make room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// Nothing comes over it, or next to nothing.
    Idle,
    /// The body of its request has been coming for long. It makes room only if none is idle.
    Body,
}

/// Somebody needs room, until this is dropped.
pub(crate) struct Wish(Idle);

/// What goes on over a connection.
pub(crate) struct Conversation {
    idle: Idle,
    /// Its number among the connections that may make room; 0 while it is none of them.
    number: AtomicU64,
    /// Whether there is no more of the answer to come, though perhaps to send.
    answered: AtomicBool,
    /// Whether a request has come over it.
    has_asked: AtomicBool,
    close: Arc<Notify>,
}

/// A request that is answered, until the body of the answer is dropped.
pub(crate) struct Answering {
    conversation: Arc<Conversation>,
    /// Whether the connection makes room for somebody once it is answered.
    is_last: bool,
}

impl Idle {
    /// Has the connection closed that has been idle longest or, if none is idle, whose body has been coming longest. If there is
    /// neither, the next of either kind is closed, and those are whose answers begin until there is room.
    pub(crate) fn make_room(&self) -> Wish {
        let mut inner = self.lock();
        inner.wishes += 1;
        inner.grant();
        Wish(self.clone())
    }

    /// A connection that begins now.
    pub(crate) fn begin(&self) -> Arc<Conversation> {
        let (number, answered, close) = (AtomicU64::new(0), AtomicBool::new(false), Arc::default());
        let conversation =
            Arc::new(Conversation { idle: self.clone(), number, answered, has_asked: AtomicBool::new(false), close });
        conversation.rest();
        conversation
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Whether somebody needs room for whom no such connection closes. One that closes with its answer does not count: its client
    /// may take its time over that.
    fn lacks_room(&self) -> bool {
        self.wishes > self.granted
    }

    fn grant(&mut self) {
        while self.lacks_room()
            && let Some((_, close)) = self.idle.pop_first().or_else(|| self.bodies.pop_first())
        {
            self.granted += 1;
            close.notify_one();
        }
    }

    fn remove(&mut self, number: u64) -> bool {
        self.idle.remove(&number).or_else(|| self.bodies.remove(&number)).is_some()
    }
}

impl Conversation {
    /// The head of a request has come.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        self.wake();
        self.answered.store(false, Ordering::Relaxed);
        self.has_asked.store(true, Ordering::Relaxed);
        Answering { conversation: self.clone(), is_last: false }
    }

    /// All that was written is sent: the connection is idle if that was the whole answer.
    pub(crate) fn flushed(&self) {
        if self.answered.swap(false, Ordering::Relaxed) {
            self.rest();
        }
    }

    /// It is idle, if it was not before.
    fn rest(&self) {
        self.become_spare(Spare::Idle);
    }

    /// It may make room, if it might not before.
    pub(crate) fn become_spare(&self, spare: Spare) {
        if self.number.load(Ordering::Relaxed) != 0 {
            return;
        }
        let mut inner = self.idle.lock();
        let number = inner.number();
        self.number.store(number, Ordering::Relaxed);
        let connections = match spare {
            Spare::Idle => &mut inner.idle,
            Spare::Body => &mut inner.bodies,
        };
        connections.insert(number, self.close.clone());
        inner.grant();
    }

    /// It may make room no more. If it was to be closed, another one is in its place.
    pub(crate) fn wake(&self) {
        if self.number.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut inner = self.idle.lock();
        let number = self.number.swap(0, Ordering::Relaxed);
        if !inner.remove(number) {
            inner.granted = inner.granted.saturating_sub(1);
            inner.grant();
        }
    }

    /// Resolves when the connection is to be closed.
    pub(crate) async fn closed(&self) {
        // From the time on at which this is called first: when the connection begins.
        let mut moment = pin!(sleep(MOMENT));
        loop {
            self.close.notified().await;
            if !self.has_asked.load(Ordering::Relaxed) {
                moment.as_mut().await;
            }
            if self.closes() {
                return;
            }
        }
    }

    /// Whether it is to be closed, which is final: what ends with it, such as the body of its request, does not call for another one
    /// in its place.
    fn closes(&self) -> bool {
        let inner = self.idle.lock();
        let number = self.number.load(Ordering::Relaxed);
        let closes = number != 0 && !inner.idle.contains_key(&number) && !inner.bodies.contains_key(&number);
        if closes {
            self.number.store(0, Ordering::Relaxed);
        }
        closes
    }
}

impl Answering {
    pub(crate) fn conversation(&self) -> Arc<Conversation> {
        self.conversation.clone()
    }

    /// Whether the answer is the last of its connection, because somebody needs the place.
    pub(crate) fn is_last(&mut self) -> bool {
        self.is_last = self.is_last || self.conversation.idle.lock().lacks_room();
        self.is_last
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.wishes = inner.wishes.saturating_sub(1);
        inner.granted = inner.granted.saturating_sub(1);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The connection makes room for one, and is not chosen again for another.
        self.conversation.answered.store(!self.is_last, Ordering::Relaxed);
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        self.idle.lock().remove(number);
    }
}

/// The body of an answer: the request is answered when this is dropped.
pub(crate) struct Answered<B> {
    body: Pin<Box<B>>,
    _answering: Answering,
}

impl<B> Answered<B> {
    pub(crate) fn new(body: B, answering: Answering) -> Self {
        Self { body: Box::pin(body), _answering: answering }
    }
}

impl<B: Body<Data = Bytes>> Body for Answered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
