//! The worker that sends what is due.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::{Notify, watch};
use tokio::task::{self, JoinError, JoinSet};

use super::letter::Templates;
use super::retry;
use super::{MailError, Mailer, Message, SEND_TIMEOUT, Sender};
use crate::clock::Clock;
use crate::entropy::{Entropy, fraction};
use crate::error::explain;
use crate::key::Keyring;
use crate::store::{Catalog, Ledger, Letter, Outcome, StoreError};

/// Letters under way at once.
const CONCURRENCY: usize = 16;
/// How long a lease holds: several times what an attempt may take, so that no letter is sent by two.
const LEASE: TimeDelta = TimeDelta::minutes(5);
/// How often the queue is looked at when nobody says that there is a new letter: due retries, other servers' letters.
const POLL: Duration = Duration::from_secs(1);
/// How long letters that are under way may take when the outbox stops. The next start sends what is given back, with the
/// same `Message-ID`.
const GRACE: Duration = Duration::from_secs(10);
/// Attempts to settle, a second apart, before the letter is left to its lease and would be sent again.
const SETTLE_ATTEMPTS: usize = 10;

/// Sends letters: leases what is due, renders, sends, settles.
///
/// A letter that fails is tried again after 5 s, 1 min, 5 min, 30 min, 2 h, 5 h, 10 h and then every 12 h up to day 5, each a
/// little later by chance. One that can never be sent is parked with its reason, logged, and kept for
/// [`parked_letters`](Ledger::parked_letters). Letters do not wait for each other.
pub struct Outbox {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) mailer: Arc<dyn Mailer>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) templates: Templates,
    pub(crate) sender: Sender,
    pub(crate) base_url: String,
    pub(crate) wake: Arc<Notify>,
}

/// What a round of the outbox came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Worked {
    /// Letters that a mail server took.
    pub sent: usize,
    /// Letters that will be tried again.
    pub deferred: usize,
    /// Letters given up.
    pub parked: usize,
}

enum End {
    Sent,
    Deferred,
    Parked,
}

/// Letters being sent, each in a task of its own: what one does to its task concerns no other.
#[derive(Default)]
struct UnderWay {
    tasks: JoinSet<End>,
    letters: HashMap<task::Id, Letter>,
}

impl Outbox {
    /// Sends everything that is due now, and returns when nothing is left: for tests, and for hosts with a scheduler of
    /// their own.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the queue cannot be read; what was sent until then is settled.
    pub async fn work(self: &Arc<Self>) -> Result<Worked, StoreError> {
        let mut worked = Worked::default();
        let mut under_way = UnderWay::default();
        let mut failed = None;
        loop {
            if failed.is_none() {
                failed = self.claim(&mut under_way).await.err();
            }
            let joined = under_way.tasks.join_next_with_id().await;
            let Some(joined) = joined else { return failed.map_or(Ok(worked), Err) };
            match self.end(&mut under_way, joined).await {
                End::Sent => worked.sent += 1,
                End::Deferred => worked.deferred += 1,
                End::Parked => worked.parked += 1,
            }
        }
    }

    /// Sends letters as they come due, until `stop` says so; then gives what is under way a little time, and the rest
    /// back.
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut under_way = UnderWay::default();
        while !*stop.borrow() {
            let claimed = self.claim(&mut under_way).await.unwrap_or_else(|error| {
                tracing::warn!(error = &error as &dyn std::error::Error, "letters wait: the store does not answer");
                0
            });
            if claimed > 0 {
                continue;
            }
            tokio::select! {
                // Only what loses nothing when another branch is first: a letter is concluded below.
                Some(joined) = under_way.tasks.join_next_with_id() => {
                    self.end(&mut under_way, joined).await;
                }
                () = self.wake.notified(), if under_way.room() > 0 => {}
                () = tokio::time::sleep(POLL) => {}
                // An error: the handle was dropped, and nobody will say stop.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
        let rest = async {
            while let Some(joined) = under_way.tasks.join_next_with_id().await {
                self.end(&mut under_way, joined).await;
            }
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            under_way.tasks.abort_all();
            for (_, letter) in under_way.letters.drain() {
                self.settle(&letter, Outcome::Release, 1).await;
            }
        }
    }

    /// Leases as many letters as there is room for, and starts sending them.
    async fn claim(self: &Arc<Self>, under_way: &mut UnderWay) -> Result<usize, StoreError> {
        let room = under_way.room();
        if room == 0 {
            return Ok(0);
        }
        let now = self.clock.now();
        let until = now.checked_add_signed(LEASE).unwrap_or(now);
        let letters = self.ledger.claim_letters(now, until, room).await?;
        let claimed = letters.len();
        for letter in letters {
            let outbox = self.clone();
            let sent = letter.clone();
            let task = under_way.tasks.spawn(async move {
                let result = outbox.deliver(&sent).await;
                outbox.conclude(&sent, result).await
            });
            under_way.letters.insert(task.id(), letter);
        }
        Ok(claimed)
    }

    /// Takes note of a letter's end; one whose task panicked is concluded here.
    async fn end(&self, under_way: &mut UnderWay, joined: Result<(task::Id, End), JoinError>) -> End {
        let (id, end) = match joined {
            Ok((id, end)) => (id, Some(end)),
            Err(error) => (error.id(), None),
        };
        match (end, under_way.letters.remove(&id)) {
            (None, Some(letter)) => self.conclude(&letter, Err(MailError::transient("the mailer panicked"))).await,
            (end, _) => end.unwrap_or(End::Deferred),
        }
    }

    async fn conclude(&self, letter: &Letter, result: Result<(), MailError>) -> End {
        let (outcome, end) = self.judge(letter, result);
        self.settle(letter, outcome, SETTLE_ATTEMPTS).await;
        end
    }

    async fn deliver(&self, letter: &Letter) -> Result<(), MailError> {
        let attempt = async { self.mailer.send(&self.render(letter).await?).await };
        let sent = tokio::time::timeout(SEND_TIMEOUT, attempt).await;
        sent.unwrap_or_else(|_| Err(MailError::transient("sending took longer than a minute")))
    }

    async fn render(&self, letter: &Letter) -> Result<Message, MailError> {
        let key = &letter.key;
        let product = self.catalog.product(key.product()).await;
        let product = product
            .map_err(|error| MailError::transient("the product cannot be read").because(error))?
            .ok_or_else(|| MailError::transient("the product is not there"))?;
        let text = self.keyring.text(key.id(), key.granted().ring);
        let rendered = self.templates.render(key, &text, &product, &self.base_url);
        let rendered =
            rendered.map_err(|error| MailError::transient("the letter cannot be rendered").because(error))?;
        Ok(Message {
            from: self.sender.clone(),
            to: key.email().clone(),
            subject: rendered.subject,
            text: rendered.text,
            html: rendered.html,
            message_id: letter.message_id.clone(),
            date: self.clock.now(),
        })
    }

    fn judge(&self, letter: &Letter, result: Result<(), MailError>) -> (Outcome, End) {
        let now = self.clock.now();
        let (key, attempt) = (letter.key.id(), letter.attempt);
        let error = match result {
            Ok(()) => {
                tracing::info!(%key, attempt, "letter sent");
                return (Outcome::Sent { at: now }, End::Sent);
            }
            Err(error) => error,
        };
        // A mail server may quote the letter in its answer; neither the log nor the store keeps a key.
        let text = self.keyring.text(key, letter.key.granted().ring);
        // Not every database keeps control characters.
        let reason = error.to_string().replace(text.expose(), "…").replace(char::is_control, " ");
        let said = explain(&error).replace(text.expose(), "…");
        let due = retry::due(attempt, letter.queued_at, now, fraction(self.entropy.as_ref()));
        if let Some(due) = due.filter(|_| !error.is_permanent()) {
            let next = crate::clock::timestamp(due);
            tracing::warn!(%key, attempt, next, error = said, "letter not sent yet");
            (Outcome::Retry { due, reason }, End::Deferred)
        } else {
            tracing::error!(%key, attempt, error = said, "letter parked: the buyer has no key");
            (Outcome::Park { at: now, reason }, End::Parked)
        }
    }

    async fn settle(&self, letter: &Letter, outcome: Outcome, attempts: usize) {
        for attempt in 1..=attempts {
            let Err(error) = self.ledger.settle_letter(letter.receipt, outcome.clone()).await else { return };
            tracing::warn!(error = &error as &dyn std::error::Error, "a letter's outcome is not kept yet");
            if attempt < attempts {
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

impl UnderWay {
    fn room(&self) -> usize {
        CONCURRENCY.saturating_sub(self.letters.len())
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("mailer", &self.mailer).field("sender", &self.sender).finish_non_exhaustive()
    }
}
