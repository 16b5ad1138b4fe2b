//! The worker that sends what is due.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::{self, JoinError, JoinSet};

use super::letter::Templates;
use super::retry;
use super::{Failure, MailError, Mailer, Message, SEND_TIMEOUT, Sender};
use crate::clock::{Clock, SystemClock};
use crate::entropy::{Entropy, fraction};
use crate::error::explain;
use crate::key::Keyring;
use crate::store::{Catalog, Ledger, Letter, Outcome, Receipt, Route, StoreError};
use crate::throttle::Throttle;

/// Letters under way at once, not counting those that take long.
const CONCURRENCY: usize = 16;
/// After so long a mail server has the message and thinks about it, for up to ten minutes: others go on meanwhile …
const LONG: Duration = Duration::from_secs(75);
/// … until so many are under way.
const MOST: usize = 256;
/// Letters are claimed at once where there is room for so many, and settled at once when so many have ended: either is a
/// commit, and a letter by itself is not worth one.
const GROUP: usize = CONCURRENCY / 2;
/// Fewer wait for so long since the last ones. No buyer notices; orders that come in a row would wait for two commits of the
/// outbox after each.
const GATHER: Duration = Duration::from_millis(25);
/// How long a lease holds after it was last renewed. What a server that died was sending waits so long for another one.
const LEASE: TimeDelta = TimeDelta::seconds(45);
/// How often leases are renewed: a store may be away for two renewals.
const RENEW: Duration = Duration::from_secs(15);
/// How often the queue is looked at when nobody says that there is a new letter: due retries, other servers' letters.
const POLL: Duration = Duration::from_secs(1);
/// When to try a letter again that something of ours kept from being tried.
const SOON: TimeDelta = TimeDelta::minutes(1);
/// How long letters that are under way may take when the outbox stops. The next start sends what is given back, with the
/// same `Message-ID`.
const GRACE: Duration = Duration::from_secs(10);
/// Attempts to settle, a second apart, before the letter is left to its lease and would be sent again.
const SETTLE_ATTEMPTS: usize = 600;

/// Sends letters: leases what is due, renders, sends, settles.
///
/// A letter that fails is tried again after 5 s, 1 min, 5 min, 30 min, 2 h, 5 h, 10 h and then every 12 h up to day 5, each a
/// little later by chance; one that may have been taken is tried again after 2 h, 5 h and so on. One that can never be sent
/// is parked with its reason, logged, and kept for [`parked_letters`](Ledger::parked_letters). Letters do not wait for each
/// other.
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
    pub(crate) route: Route,
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

/// A letter that is being sent, and since when.
struct Sending {
    letter: Letter,
    since: Duration,
}

/// Letters being sent, each in a task of its own: what one does to its task concerns no other.
#[derive(Default)]
struct UnderWay {
    tasks: JoinSet<Result<(), MailError>>,
    letters: HashMap<task::Id, Sending>,
    /// Those that have ended, and what became of them: not yet known to the store.
    ended: Vec<(Letter, Outcome)>,
    settling: JoinSet<()>,
    /// The leases of those that are being settled.
    unsettled: HashMap<task::Id, Receipt>,
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
        let mut renewal = pin!(tokio::time::sleep(RENEW));
        let mut failed = None;
        loop {
            if failed.is_none() && under_way.room() >= GROUP {
                failed = self.claim(&mut under_way).await.err();
            }
            let joined = tokio::select! {
                joined = under_way.tasks.join_next_with_id() => joined,
                () = &mut renewal => {
                    self.renew(&under_way).await;
                    renewal.set(tokio::time::sleep(RENEW));
                    // Those that are still being sent may take minutes.
                    self.settle_ended(&mut under_way);
                    continue;
                }
            };
            let Some(joined) = joined else { break };
            match self.end(&mut under_way, joined) {
                End::Sent => worked.sent += 1,
                End::Deferred => worked.deferred += 1,
                End::Parked => worked.parked += 1,
            }
            if under_way.ended.len() >= GROUP || under_way.tasks.is_empty() {
                self.settle_ended(&mut under_way);
                while let Some(settled) = under_way.settling.join_next_with_id().await {
                    under_way.note(settled);
                }
            }
        }
        failed.map_or(Ok(worked), Err)
    }

    /// Sends letters as they come due, until `stop` says so; then gives what is under way a little time, and the rest
    /// back.
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        static WAITING: Throttle = Throttle::new();
        let mut under_way = UnderWay::default();
        let mut renewal = pin!(tokio::time::sleep(RENEW));
        let mut gathering = pin!(tokio::time::sleep(Duration::ZERO));
        // Whether letters may wait that nobody has claimed, and whether some certainly do.
        let (mut asked, mut more) = (true, false);
        while !*stop.borrow() {
            // Read once: it may end at any moment.
            let mut gathered = gathering.is_elapsed();
            let settle = under_way.ended.len() >= GROUP || gathered && !under_way.ended.is_empty();
            if settle {
                self.settle_ended(&mut under_way);
            }
            let room = under_way.room();
            let claim = asked && if gathered { room > 0 } else { more && room >= GROUP };
            if claim {
                more = self.claim(&mut under_way).await.unwrap_or_else(|error| {
                    if let Some(more) = WAITING.admit() {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, more, "letters wait: the store does not answer");
                    }
                    false
                });
                asked = more;
            }
            if gathered && (settle || claim) {
                gathering.set(tokio::time::sleep(GATHER));
                gathered = false;
            }
            let gathers = !gathered && (asked || !under_way.ended.is_empty());
            tokio::select! {
                // Only what loses nothing when another branch is first.
                Some(joined) = under_way.tasks.join_next_with_id() => drop(self.end(&mut under_way, joined)),
                Some(settled) = under_way.settling.join_next_with_id() => under_way.note(settled),
                () = &mut renewal, if !(under_way.letters.is_empty() && under_way.unsettled.is_empty()) => {
                    self.renew(&under_way).await;
                    renewal.set(tokio::time::sleep(RENEW));
                }
                () = &mut gathering, if gathers => {}
                () = self.wake.notified(), if !asked => asked = true,
                () = tokio::time::sleep(POLL), if !asked => asked = true,
                // An error: the handle was dropped, and nobody will say stop.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
        if tokio::time::timeout(GRACE, self.finish(&mut under_way)).await.is_err() {
            under_way.tasks.abort_all();
            let rest: Vec<_> = under_way.letters.drain().map(|(_, sending)| self.cut_off(sending)).collect();
            join_all(rest.iter().map(|(letter, outcome)| self.settle(letter, outcome.clone(), 1))).await;
        }
    }

    /// Waits for all that is under way; what ends is settled at once.
    async fn finish(self: &Arc<Self>, under_way: &mut UnderWay) {
        self.settle_ended(under_way);
        while let Some(joined) = under_way.tasks.join_next_with_id().await {
            self.end(under_way, joined);
            self.settle_ended(under_way);
        }
        while let Some(settled) = under_way.settling.join_next_with_id().await {
            under_way.note(settled);
        }
    }

    /// Leases as many letters as there is room for, starts sending them, and answers whether more may be due.
    async fn claim(self: &Arc<Self>, under_way: &mut UnderWay) -> Result<bool, StoreError> {
        let room = under_way.room();
        let now = self.clock.now();
        let until = now.checked_add_signed(LEASE).unwrap_or(now);
        let letters = self.ledger.claim_letters(now, until, room).await?;
        let more = letters.len() == room;
        for letter in letters {
            let outbox = self.clone();
            let sent = letter.clone();
            let task = under_way.tasks.spawn(async move { outbox.deliver(&sent).await });
            under_way.letters.insert(task.id(), Sending { letter, since: SystemClock.monotonic() });
            // Rendering one takes as long as answering a dozen requests: those that have come meanwhile go between.
            task::yield_now().await;
        }
        Ok(more)
    }

    /// What becomes of a letter that is still being sent when the outbox stops: the mail server may have one that took long.
    fn cut_off(&self, sending: Sending) -> (Letter, Outcome) {
        if !sending.is_long() {
            return (sending.letter, Outcome::Release);
        }
        let error = MailError::unconfirmed("the server stopped while the mail server had the message");
        let (outcome, _) = self.judge(&sending.letter, Err(error));
        (sending.letter, outcome)
    }

    /// Keeps the letters that are being sent from everybody else for a while longer.
    async fn renew(&self, under_way: &UnderWay) {
        static NOT_RENEWED: Throttle = Throttle::new();
        let sending = under_way.letters.values().map(|sending| &sending.letter);
        let sending = sending.chain(under_way.ended.iter().map(|(letter, _)| letter));
        let receipts: Vec<Receipt> =
            sending.map(|letter| letter.receipt).chain(under_way.unsettled.values().copied()).collect();
        let now = self.clock.now();
        let until = now.checked_add_signed(LEASE).unwrap_or(now);
        if let Err(error) = self.ledger.renew_letters(&receipts, until).await
            && let Some(more) = NOT_RENEWED.admit()
        {
            tracing::warn!(error = &error as &dyn std::error::Error, more, "leases of letters are not renewed");
        }
    }

    /// Takes note of a letter's end.
    fn end(&self, under_way: &mut UnderWay, joined: Result<(task::Id, Result<(), MailError>), JoinError>) -> End {
        let (id, result) = match joined {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(MailError::transient("the mailer panicked"))),
        };
        let Some(Sending { letter, .. }) = under_way.letters.remove(&id) else { return End::Deferred };
        let (outcome, end) = self.judge(&letter, result);
        under_way.ended.push((letter, outcome));
        end
    }

    /// Tells the store of the letters that have ended: each in a task of its own, but at once, so that they share a commit.
    fn settle_ended(self: &Arc<Self>, under_way: &mut UnderWay) {
        for (letter, outcome) in under_way.ended.drain(..) {
            let outbox = self.clone();
            let receipt = letter.receipt;
            let settling =
                under_way.settling.spawn(async move { outbox.settle(&letter, outcome, SETTLE_ATTEMPTS).await });
            under_way.unsettled.insert(settling.id(), receipt);
        }
    }

    async fn deliver(&self, letter: &Letter) -> Result<(), MailError> {
        let attempt = async { self.mailer.send(&self.render(letter).await?).await };
        let sent = tokio::time::timeout(SEND_TIMEOUT, attempt).await;
        sent.unwrap_or_else(|_| Err(MailError::unconfirmed("sending took longer than twelve minutes and was cut off")))
    }

    async fn render(&self, letter: &Letter) -> Result<Message, MailError> {
        let key = &letter.key;
        let product = self.catalog.product(key.product()).await;
        let product = product
            .map_err(|error| MailError::not_tried("the product cannot be read").because(error))?
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
        if error.kind() == Failure::NotTried {
            let due = now.checked_add_signed(SOON).unwrap_or(now);
            tracing::warn!(%key, error = said, "letter not tried yet");
            return (Outcome::Postpone { due, reason }, End::Deferred);
        }
        let due = retry::due(error.kind(), attempt, (letter.queued_at, now), fraction(self.entropy.as_ref()));
        if let Some(due) = due {
            let next = crate::clock::timestamp(due);
            tracing::warn!(%key, attempt, next, error = said, "letter not sent yet");
            let route = (error.kind() != Failure::Unconfirmed).then_some(self.route);
            (Outcome::Retry { due, reason, route }, End::Deferred)
        } else {
            tracing::error!(%key, attempt, error = said, "letter parked: the buyer has no key");
            (Outcome::Park { at: now, reason, route: self.route }, End::Parked)
        }
    }

    async fn settle(&self, letter: &Letter, outcome: Outcome, attempts: usize) {
        static NOT_KEPT: Throttle = Throttle::new();
        for attempt in 1..=attempts {
            let Err(error) = self.ledger.settle_letter(letter.receipt, outcome.clone()).await else { return };
            if let Some(more) = NOT_KEPT.admit() {
                tracing::warn!(error = &error as &dyn std::error::Error, more, "a letter's outcome is not kept yet");
            }
            if attempt < attempts {
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

impl Sending {
    fn is_long(&self) -> bool {
        SystemClock.monotonic().saturating_sub(self.since) >= LONG
    }
}

impl UnderWay {
    fn note(&mut self, settled: Result<(task::Id, ()), JoinError>) {
        let id = settled.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        self.unsettled.remove(&id);
        if let Err(error) = settled {
            tracing::error!(%error, "the store panicked; a letter's outcome is not kept, and it is sent again after its lease");
        }
    }

    fn room(&self) -> usize {
        let brief = self.letters.values().filter(|sending| !sending.is_long()).count();
        CONCURRENCY.saturating_sub(brief).min(MOST.saturating_sub(self.letters.len()))
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("mailer", &self.mailer).field("sender", &self.sender).finish_non_exhaustive()
    }
}
