//! A message of the naive model: when it is tried, and when it is given up.

use crate::Behaviour;

/// Seconds to the second, third, … attempt at an e-mail, then always the last; on day five it is given up.
const RETRIES: [i64; 8] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 43_200];
const GIVE_UP: i64 = 5 * 86_400_000;
/// Unless it was tried fewer times than this.
const FEWEST: usize = 15;
/// An e-mail that may have been taken skips so many of the first waits.
const SKIPPED: usize = 4;
/// An e-mail that is due later than this was made so by a clock that was wrong.
const FARTHEST: i64 = 13 * 3_600_000;

/// What an e-mail says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the e-mails that histories have")]
pub enum Topic {
    /// Here is the key.
    Sold,
    /// The key was revoked after a refund.
    Refunded,
    /// Here is the key again.
    Again,
    /// Here is the key that took the place of another.
    Successor,
    /// The key expires at this second.
    Expiring(i64),
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) topic: Topic,
    /// Which buyer.
    pub(super) to: usize,
    queued: i64,
    due: i64,
    attempts: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Sent,
    Failed,
}

impl Message {
    pub(super) fn queued(topic: Topic, to: usize, now: i64) -> Self {
        Self { topic, to, queued: now, due: now, attempts: 0, state: State::Waiting }
    }

    /// It is to be tried again, as if it were new.
    pub(super) fn renew(&mut self, now: i64) {
        *self = Self::queued(self.topic, self.to, now);
    }

    /// It is given up without an attempt at the mail server, since what it says is not true any more.
    pub(super) fn give_up(&mut self) {
        self.state = State::Failed;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    pub(super) fn is_due(&self, now: i64) -> bool {
        self.state == State::Waiting && (self.due <= now || self.due > now + FARTHEST)
    }

    /// One attempt, with a mail server that behaves so. Returns what became of it.
    pub(super) fn attempt(&mut self, now: i64, mailer: Behaviour) -> State {
        self.queued = self.queued.min(now);
        self.attempts += 1;
        let skipped = if mailer == Behaviour::AcceptThenFail { SKIPPED } else { 0 };
        let wait = RETRIES[(self.attempts - 1 + skipped).min(RETRIES.len() - 1)] * 1000;
        let (next, last) = (now + wait, self.queued + GIVE_UP);
        // The last attempt is made on day five itself, once.
        let next = if now < last { Some(next.min(last)) } else { Some(next).filter(|_| self.attempts < FEWEST) };
        self.state = match (mailer, next) {
            (Behaviour::Accept, _) => State::Sent,
            (Behaviour::FailPermanent, _) | (_, None) => State::Failed,
            (_, Some(_)) => State::Waiting,
        };
        self.due = next.filter(|_| self.state == State::Waiting).unwrap_or(self.due);
        self.state
    }
}
