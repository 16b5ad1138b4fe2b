//! A message of the naive model: when it is tried, and when the worker gives up.

use crate::Behaviour;

/// Seconds until the second, third, … attempt at an e-mail. The last value repeats.
const RETRIES: [i64; 8] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 43_200];
const GIVE_UP: i64 = 5 * 86_400_000;
/// The worker does not give up on an e-mail that was tried fewer times than this.
const FEWEST: usize = 15;
/// The number of waits at the start of `RETRIES` that are skipped if the mail server may have accepted the e-mail.
const SKIPPED: usize = 4;
/// The latest plausible due time of an e-mail, in milliseconds from now. A later due time was set by a wrong clock and
/// counts as past.
const MAX_RETRY_DELAY: i64 = 13 * 3_600_000;

/// The subject of an e-mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "histories have no other e-mails")]
pub enum Topic {
    /// The e-mail contains the key that was sold.
    Sold,
    /// The key was revoked after a refund.
    Refunded,
    /// The e-mail contains the key again.
    Again,
    /// The e-mail contains the key that replaced another one.
    Successor,
    /// The key expires soon, at this time in seconds since 1970.
    Expiring(i64),
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) topic: Topic,
    /// The buyer, by index.
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

    /// Queues the message again as if it were new.
    pub(super) fn renew(&mut self, now: i64) {
        *self = Self::queued(self.topic, self.to, now);
    }

    /// Gives up without an attempt, because what the message says is no longer true.
    pub(super) fn give_up(&mut self) {
        self.state = State::Failed;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    pub(super) fn is_due(&self, now: i64) -> bool {
        self.state == State::Waiting && (self.due <= now || self.due > now + MAX_RETRY_DELAY)
    }

    /// Tries the message with a mail server that behaves as `mailer` says. Returns the message's new state.
    pub(super) fn attempt(&mut self, now: i64, mailer: Behaviour) -> State {
        self.queued = self.queued.min(now);
        self.attempts += 1;
        let skipped = if mailer == Behaviour::AcceptThenFail { SKIPPED } else { 0 };
        let wait = RETRIES[(self.attempts - 1 + skipped).min(RETRIES.len() - 1)] * 1000;
        let (next, last) = (now + wait, self.queued + GIVE_UP);
        // An attempt is made exactly five days after the message was queued. It is the last one, unless there have been
        // fewer than `FEWEST`.
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
