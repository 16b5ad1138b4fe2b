//! Which connection makes room when all places are taken: the one that has been idle longest; if none is idle, the one whose
//! request's body has been coming longest, once that is two seconds.
//!
//! A connection is idle until the head of its first request has come, from the end of an answer until the head of the next
//! request has come, and while next to nothing comes of the body of a request. A client that is slow keeps no place.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

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
        let conversation = Arc::new(Conversation { idle: self.clone(), number, answered, close });
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
        loop {
            self.close.notified().await;
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
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_closed(conversation: &Conversation) -> bool {
        conversation.closed().now_or_never().is_some()
    }

    #[test]
    fn who_is_idle_longest_makes_room_for_one() {
        let idle = Idle::default();
        let all: Vec<_> = (0..3).map(|_| idle.begin()).collect();
        drop(all[0].answer());
        all[0].flushed();
        let _wish = idle.make_room();
        assert_eq!(all.iter().map(|one| is_closed(one)).collect::<Vec<_>>(), [false, true, false]);
        assert!(!all[0].answer().is_last(), "no other is closed too");
    }

    #[test]
    fn while_none_is_idle_the_body_that_has_been_coming_longest_makes_room() {
        let idle = Idle::default();
        let all: Vec<_> = (0..4).map(|_| idle.begin()).collect();
        let bodies: Vec<_> = all[..3].iter().map(Conversation::answer).collect();
        all[1].become_spare(Spare::Body);
        all[0].become_spare(Spare::Body);
        let _wishes = [idle.make_room(), idle.make_room()];
        assert_eq!([0, 2, 3].map(|one: usize| is_closed(&all[one])), [false, false, true]);
        // The end of the body comes before the connection is closed: the next one makes room.
        all[1].wake();
        assert!(!is_closed(&all[1]) && is_closed(&all[0]));
        drop(bodies);
    }

    #[test]
    fn who_is_closed_calls_for_no_other_by_what_ends_with_it() {
        let idle = Idle::default();
        let all: Vec<_> = (0..2).map(|_| idle.begin()).collect();
        let bodies: Vec<_> = all.iter().map(Conversation::answer).collect();
        all[0].become_spare(Spare::Idle);
        let _wish = idle.make_room();
        assert!(is_closed(&all[0]));
        // Its body ends, and then that of the other is slow.
        all[0].wake();
        all[1].become_spare(Spare::Idle);
        assert!(!is_closed(&all[1]));
        drop(bodies);
    }

    #[test]
    fn while_none_is_idle_every_answer_is_the_last_until_there_is_room() {
        let idle = Idle::default();
        let all: Vec<_> = (0..3).map(|_| idle.begin()).collect();
        let mut answers: Vec<_> = all.iter().map(Conversation::answer).collect();
        let wish = idle.make_room();
        // The client of the first may take its time.
        assert!(answers[0].is_last() && answers[1].is_last());
        drop(wish);
        assert!(!answers[2].is_last());
        drop(answers);
        for one in &all {
            one.flushed();
        }
        let _wish = idle.make_room();
        assert_eq!(all.iter().map(|one| is_closed(one)).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn who_was_to_be_closed_and_asks_is_answered_and_another_makes_room() {
        let idle = Idle::default();
        let (oldest, other) = (idle.begin(), idle.begin());
        let _wish = idle.make_room();
        let mut answer = oldest.answer();
        assert!(!answer.is_last() && !is_closed(&oldest));
        // Now only the other is idle, and asks too before it is closed.
        assert!(other.answer().is_last() && !is_closed(&other) && answer.is_last());
    }

    #[test]
    fn a_wish_that_comes_true_or_is_given_up_closes_no_more() {
        let idle = Idle::default();
        let (first, second) = (idle.begin(), idle.begin());
        let wish = idle.make_room();
        assert!(is_closed(&first));
        drop((first, wish));
        drop(idle.make_room());
        assert!(is_closed(&second), "it was chosen for the one that gave up");
        let third = idle.begin();
        assert!(!is_closed(&third) && !third.answer().is_last());
    }
}
