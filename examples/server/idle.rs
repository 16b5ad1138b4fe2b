//! Which connections are idle: when all places are taken, the one that has been idle longest makes room.
//!
//! A connection is idle until the head of its first request has come, and from the end of an answer until the head of the next
//! request has come. A head that comes slowly keeps no place.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

/// The idle connections of a server. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Idle(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Numbers are given in the order of time.
    last: u64,
    /// How each is told to close.
    connections: BTreeMap<u64, Arc<Notify>>,
    /// Those who need room and found no connection idle.
    wishes: BTreeSet<u64>,
}

/// Somebody needs room, until this is dropped.
pub(crate) struct Wish {
    idle: Idle,
    number: u64,
}

/// What goes on over a connection.
pub(crate) struct Conversation {
    idle: Idle,
    /// Its number among the idle connections; 0 while a request is answered.
    number: AtomicU64,
    /// Whether there is no more of the answer to come, though perhaps to send.
    answered: AtomicBool,
    close: Arc<Notify>,
}

/// A request that is answered, until the body of the answer is dropped.
pub(crate) struct Answering {
    conversation: Arc<Conversation>,
    /// Whether the connection makes room for somebody once it is answered.
    is_last: bool,
}

impl Idle {
    /// Has the connection closed that has been idle longest. If none is idle, the next that becomes idle is closed.
    pub(crate) fn make_room(&self) -> Wish {
        let mut inner = self.lock();
        let number = inner.number();
        if let Some((_, close)) = inner.connections.pop_first() {
            close.notify_one();
        } else {
            inner.wishes.insert(number);
        }
        Wish { idle: self.clone(), number }
    }

    /// A connection that begins now.
    pub(crate) fn begin(&self) -> Arc<Conversation> {
        let (number, answered, close) = (AtomicU64::new(0), AtomicBool::new(true), Arc::default());
        let conversation = Conversation { idle: self.clone(), number, answered, close };
        conversation.flushed();
        Arc::new(conversation)
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
}

impl Conversation {
    /// The head of a request has come.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        let number = self.number.swap(0, Ordering::Relaxed);
        self.answered.store(false, Ordering::Relaxed);
        // It came after the connection was chosen, and is answered all the same.
        let is_last = number != 0 && self.idle.lock().connections.remove(&number).is_none();
        Answering { conversation: self.clone(), is_last }
    }

    /// All that was written is sent: the connection is idle if that was the whole answer.
    pub(crate) fn flushed(&self) {
        if !self.answered.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut inner = self.idle.lock();
        let number = inner.number();
        self.number.store(number, Ordering::Relaxed);
        if inner.wishes.pop_first().is_some() {
            self.close.notify_one();
        } else {
            inner.connections.insert(number, self.close.clone());
        }
    }

    /// Resolves when the connection is to be closed.
    pub(crate) async fn closed(&self) {
        loop {
            self.close.notified().await;
            if self.number.load(Ordering::Relaxed) != 0 {
                return;
            }
        }
    }
}

impl Answering {
    /// Whether the answer is the last of its connection, because somebody needs the place.
    pub(crate) fn is_last(&mut self) -> bool {
        self.is_last = self.is_last || self.conversation.idle.lock().wishes.pop_first().is_some();
        self.is_last
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.idle.lock().wishes.remove(&self.number);
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
        self.idle.lock().connections.remove(&number);
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
