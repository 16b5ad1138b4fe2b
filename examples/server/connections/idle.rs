//! Chooses the connection that is closed to make room when all places are taken. This is the connection that has been
//! idle longest. If none is idle, it is the one that has been receiving the body of a request longest, if it has done
//! so for two seconds.
//!
//! A connection is idle until the head of its first request has arrived, from the end of an answer until the head of
//! the next request has arrived, and while the body of a request arrives too slowly. So a slow client cannot keep its
//! place. A new connection may be chosen while its first request is on its way, so it gets [a moment](MOMENT) before it
//! is closed.

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

/// How long a new connection may take to send its first request before it is closed to make room.
const MOMENT: Duration = Duration::from_millis(250);

/// The connections of a server that may be closed to make room. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Idle(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The last number given to a connection. Numbers increase, so the lowest belongs to the connection that waits
    /// longest.
    last: u64,
    /// The idle connections by number, each with the signal that closes it.
    idle: BTreeMap<u64, Arc<Notify>>,
    /// The same for connections that have been receiving a body for long.
    bodies: BTreeMap<u64, Arc<Notify>>,
    /// How many [`Wish`]es there are.
    wishes: usize,
    /// For how many of these wishes a connection is being closed.
    granted: usize,
}

/// Why a connection may make room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// It receives nothing, or a body too slowly.
    Idle,
    /// It has been receiving the body of a request for long. It makes room only if no connection is idle.
    Body,
}

/// A request for room, until this is dropped.
pub(crate) struct Wish(Idle);

/// The state of a connection.
pub(crate) struct Conversation {
    idle: Idle,
    /// Its number among the connections that may make room; 0 while it is none of them.
    number: AtomicU64,
    /// Whether the body of the answer has been produced in full, though perhaps not sent. Stays false if the connection
    /// closes after the answer to make room.
    answered: AtomicBool,
    /// Whether the head of a request has arrived over it.
    has_asked: AtomicBool,
    close: Arc<Notify>,
}

/// A request that is being answered, until the body of the answer is dropped.
pub(crate) struct Answering {
    conversation: Arc<Conversation>,
    /// Whether the connection is closed after this answer to make room.
    is_last: bool,
}

impl Idle {
    /// Closes the connection that has been idle longest. If none is idle, closes the one that has been receiving a body
    /// longest. If there is neither, closes the next connection that becomes one of the two. Until there is room, each
    /// connection whose answer begins is also closed after that answer.
    pub(crate) fn make_room(&self) -> Wish {
        let mut inner = self.lock();
        inner.wishes += 1;
        inner.grant();
        Wish(self.clone())
    }

    /// Registers a new connection, which is idle.
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

    /// Whether there are more wishes than connections that are being closed for them. A connection that closes after
    /// its answer does not count, because its client may read the answer slowly.
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
    /// To be called when the head of a request has arrived.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        self.wake();
        self.answered.store(false, Ordering::Relaxed);
        self.has_asked.store(true, Ordering::Relaxed);
        Answering { conversation: self.clone(), is_last: false }
    }

    /// To be called when everything that was written is sent. The connection becomes idle if that was the whole answer.
    pub(crate) fn flushed(&self) {
        if self.answered.swap(false, Ordering::Relaxed) {
            self.rest();
        }
    }

    /// Marks the connection as idle, unless it may already make room.
    fn rest(&self) {
        self.become_spare(Spare::Idle);
    }

    /// Adds the connection to those that may make room, unless it is already one of them.
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

    /// Removes the connection from those that may make room. If it was chosen to be closed, another one is chosen
    /// instead.
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
        // The moment begins when this is first polled, which is when the connection begins.
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

    /// Whether the connection is to be closed. If so, the choice is final: dropping the body of its request does not
    /// make [`wake`](Self::wake) choose another connection instead.
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

    /// Whether the connection is closed after this answer, because its place is needed.
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
        // A connection that is closed after this answer does not become idle, so it is not chosen again.
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
