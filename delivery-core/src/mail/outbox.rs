//! The worker that sends due messages: e-mails, and webhooks of the host application.

mod attempt;
mod outcome;
mod under_way;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{self, JoinError};

use self::outcome::{AttemptEnd, COMPLETE_ATTEMPTS};
use self::under_way::{CONCURRENCY, Sending, UnderWay};
use super::templates::Templates;
use super::{Brand, MailError, MailLinks, Mailer, Sender};
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::key::Keyring;
use crate::language::Language;
use crate::ledger::{LeasedMessage, Outcome, Route};
use crate::observer::Observers;
use crate::store::{Catalog, Ledger, StoreError};
use crate::throttle::log_seldom;

/// The minimum number of e-mails for which the outbox makes a commit without delay. The outbox makes two kinds of
/// commits: one stores the outcomes of e-mails, the other leases e-mails. If a commit would probably concern fewer
/// e-mails than this, it is delayed by [`GATHER`], because a commit is too expensive for a single e-mail.
const GROUP: usize = CONCURRENCY / 2;
/// How long the outbox waits between two commits that are for fewer than [`GROUP`] e-mails. Orders that arrive one
/// after the other would otherwise be slow: each would wait for two commits of the outbox. One commit leases the e-mail
/// of the previous order, and the other stores the outcome of that e-mail. No buyer notices the delay.
const GATHER: Duration = Duration::from_millis(25);
/// The number of renewal intervals in the duration of a lease. With three intervals, no lease expires if a single
/// renewal fails.
const RENEWALS: u32 = 3;
/// How often the queue is read if nothing wakes the worker. These reads find retries that have fallen due, and e-mails
/// that other servers have queued.
const POLL: Duration = Duration::from_secs(1);
/// How long the outbox waits for the e-mails in progress when it stops. E-mails that take longer are cut off. Their
/// leases are released, so that they are sent by another server or after the next start, with the same `Message-ID`.
/// The exception is an e-mail that the mailer has had for 95 seconds: it may already have been accepted, so it counts
/// as unconfirmed.
const GRACE: Duration = Duration::from_secs(10);

/// Sends e-mails: leases the messages that are due, renders them, sends them and completes the leases.
///
/// An e-mail that fails is retried after 5 s, 1 min, 5 min, 30 min, 2 h, 5 h, 10 h and then every 12 h up to day 5,
/// with a random extension of each delay. An e-mail that may have been accepted is retried after 2 h, 5 h and so on. An
/// e-mail that is not retried any more is marked as failed, logged with its reason, and kept for
/// [`failed_messages`](crate::Delivery::failed_messages). E-mails are sent concurrently. Webhooks are sent in the same
/// way, with one difference: a webhook that may have arrived is retried soon, because its receiver recognises the
/// repeated id.
pub struct Outbox {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) mailer: Arc<dyn Mailer>,
    /// Limits how many e-mails are handed to the mailer [at once](Mailer::at_once).
    pub(crate) places: Semaphore,
    /// How long a lease lasts after it was taken or renewed.
    pub(crate) lease: Duration,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) templates: Templates,
    pub(crate) sender: Sender,
    pub(crate) base_url: String,
    pub(crate) links: MailLinks,
    pub(crate) brand: Brand,
    /// Whether e-mails show the `curl` command that fetches a product for every type of product, not only for the type
    /// `api`.
    pub(crate) shows_commands: bool,
    pub(crate) language: Language,
    pub(crate) route: Route,
    pub(crate) wake: Arc<Notify>,
    pub(crate) observers: Observers,
    #[cfg(feature = "webhooks")]
    pub(crate) webhooks: Option<crate::webhook::Webhooks>,
}

/// What one call of [`Outbox::work`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Worked {
    /// E-mails that a mail server accepted, and webhooks that their receivers accepted.
    pub sent: usize,
    /// E-mails and webhooks that will be retried.
    pub deferred: usize,
    /// E-mails and webhooks that failed and will not be retried.
    pub failed: usize,
}

impl Outbox {
    /// Sends all e-mails and webhooks that are due now, and returns when no message is due any more. For tests, and for
    /// host applications with their own scheduler.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the queue cannot be read. The outcomes of the messages that were leased before the error are
    /// stored nevertheless.
    pub async fn work(self: &Arc<Self>) -> Result<Worked, StoreError> {
        let mut worked = Worked::default();
        let mut under_way = UnderWay::default();
        let mut renewal = pin!(tokio::time::sleep(self.lease / RENEWALS));
        let mut failed = None;
        loop {
            if failed.is_none() && under_way.room() >= GROUP {
                failed = self.claim(&mut under_way).await.err();
            }
            let joined = tokio::select! {
                joined = under_way.tasks.join_next_with_id() => joined,
                () = &mut renewal => {
                    self.renew(&under_way).await;
                    renewal.set(tokio::time::sleep(self.lease / RENEWALS));
                    // Store the outcomes so far. Do not wait for the e-mails that are still being sent, because they
                    // may take minutes.
                    self.settle_ended(&mut under_way);
                    continue;
                }
            };
            let Some(joined) = joined else { break };
            match self.end(&mut under_way, joined) {
                AttemptEnd::Sent => worked.sent += 1,
                AttemptEnd::Deferred => worked.deferred += 1,
                AttemptEnd::Failed => worked.failed += 1,
            }
            if under_way.ended.len() >= GROUP || under_way.tasks.is_empty() {
                self.settle_ended(&mut under_way);
                while let Some(completed) = under_way.completing.join_next_with_id().await {
                    under_way.note(completed);
                }
            }
        }
        failed.map_or(Ok(worked), Err)
    }

    /// Sends e-mails as they fall due, until `stop` is true. Then waits up to `GRACE` for the e-mails in progress, and
    /// cuts off the rest.
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut under_way = UnderWay::default();
        let mut renewal = pin!(tokio::time::sleep(self.lease / RENEWALS));
        let mut gathering = pin!(tokio::time::sleep(Duration::ZERO));
        // `asked` is true if e-mails that are not leased yet may be due. `more` is true if the last call of `claim`
        // filled all free slots, so that more e-mails are probably due.
        let (mut asked, mut more) = (true, false);
        while !*stop.borrow() {
            // Handle every message whose sending has ended. One iteration of this loop may start to send many messages,
            // so handling only one result in each iteration would not keep up.
            while let Some(joined) = under_way.tasks.try_join_next_with_id() {
                self.end(&mut under_way, joined);
            }
            under_way.note_completed();
            // Read this only once: the timer may elapse at any moment.
            let mut gathered = gathering.is_elapsed();
            let complete = under_way.ended.len() >= GROUP || gathered && !under_way.ended.is_empty();
            if complete {
                self.settle_ended(&mut under_way);
            }
            let room = under_way.room();
            let claim = asked && if gathered { room > 0 } else { more && room >= GROUP };
            if claim {
                more = self.claim(&mut under_way).await.unwrap_or_else(|error| {
                    log_seldom!(warn, error = &error, "e-mails are delayed: the store does not answer");
                    false
                });
                asked = more;
            }
            if gathered && (complete || claim) {
                gathering.set(tokio::time::sleep(GATHER));
                gathered = false;
            }
            let gathers = !gathered && (asked || !under_way.ended.is_empty());
            tokio::select! {
                // Every branch is cancel-safe: it loses nothing if another branch completes first.
                Some(joined) = under_way.tasks.join_next_with_id() => drop(self.end(&mut under_way, joined)),
                Some(completed) = under_way.completing.join_next_with_id() => under_way.note(completed),
                () = &mut renewal, if !(under_way.messages.is_empty() && under_way.incomplete.is_empty()) => {
                    self.renew(&under_way).await;
                    renewal.set(tokio::time::sleep(self.lease / RENEWALS));
                }
                () = &mut gathering, if gathers => {}
                () = self.wake.notified(), if !asked => asked = true,
                () = tokio::time::sleep(POLL), if !asked => asked = true,
                // `Err` means that the sending half of the `stop` channel was dropped without a stop signal.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
        if tokio::time::timeout(GRACE, self.finish(&mut under_way)).await.is_err() {
            under_way.tasks.abort_all();
            let rest: Vec<_> = under_way.messages.drain().map(|(_, sending)| self.cut_off(sending)).collect();
            join_all(rest.iter().map(|(message, outcome)| self.complete(message, outcome.clone(), 1))).await;
        }
    }

    /// Waits for all e-mails in progress. Stores the outcome of each e-mail as soon as its sending ends.
    async fn finish(self: &Arc<Self>, under_way: &mut UnderWay) {
        self.settle_ended(under_way);
        while let Some(joined) = under_way.tasks.join_next_with_id().await {
            self.end(under_way, joined);
            self.settle_ended(under_way);
        }
        while let Some(completed) = under_way.completing.join_next_with_id().await {
            under_way.note(completed);
        }
    }

    /// Leases as many e-mails as there is room for, starts to send them, and returns whether more may be due.
    async fn claim(self: &Arc<Self>, under_way: &mut UnderWay) -> Result<bool, StoreError> {
        let room = under_way.room();
        let now = self.clock.now();
        let messages = self.ledger.claim_messages(now, self.leased_until(now), room).await?;
        let more = messages.len() == room;
        under_way.note_completed();
        for message in messages {
            if under_way.resume(&message) {
                continue;
            }
            let outbox = self.clone();
            let (sent, handed_over) = (message.clone(), Arc::<OnceLock<Duration>>::default());
            let noted = handed_over.clone();
            let task = under_way.tasks.spawn(async move { outbox.deliver(&sent, &noted).await });
            under_way.messages.insert(task.id(), Sending { message, handed_over });
            // Rendering an e-mail takes as long as answering a dozen requests. Yield, so that waiting requests are
            // answered in between.
            task::yield_now().await;
        }
        Ok(more)
    }

    /// Decides the outcome of a message that is still being sent when the outbox stops. If the mailer has had an e-mail
    /// for 95 seconds or more, the mail server may already have accepted it, so the outcome is that of an unconfirmed
    /// e-mail. Otherwise the lease of the message is released, so that the message is sent after the next start.
    fn cut_off(&self, sending: Sending) -> (LeasedMessage, Outcome) {
        if !sending.is_long() {
            return (sending.message, Outcome::Release);
        }
        let error = MailError::unconfirmed("the server stopped while the mail server had the message");
        let (outcome, _) = self.judge(&sending.message, Err(error));
        (sending.message, outcome)
    }

    fn leased_until(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        TimeDelta::from_std(self.lease).ok().and_then(|lease| now.checked_add_signed(lease)).unwrap_or(now)
    }

    /// Renews the leases of all e-mails in progress, so that no other server sends them.
    async fn renew(&self, under_way: &UnderWay) {
        let leases = under_way.leases();
        let until = self.leased_until(self.clock.now());
        if let Err(error) = self.ledger.renew_leases(&leases, until).await {
            log_seldom!(warn, error = &error, "the leases of e-mails cannot be renewed");
        }
    }

    /// Decides the outcome of an e-mail whose sending task has ended, and puts it into `under_way.ended` to be stored.
    fn end(
        &self,
        under_way: &mut UnderWay,
        joined: Result<(task::Id, Result<(), MailError>), JoinError>,
    ) -> AttemptEnd {
        let (id, result) = match joined {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(MailError::transient("the mailer panicked"))),
        };
        let Some(Sending { message, .. }) = under_way.messages.remove(&id) else { return AttemptEnd::Deferred };
        let (outcome, end) = self.judge(&message, result);
        under_way.ended.push((message, outcome));
        end
    }

    /// Starts to store the outcomes of the e-mails whose sending has ended. Each outcome is stored by a task of its
    /// own. The tasks start together, so that the store can write all outcomes in one commit.
    fn settle_ended(self: &Arc<Self>, under_way: &mut UnderWay) {
        for (message, outcome) in under_way.ended.drain(..) {
            let (outbox, kept) = (self.clone(), (message.clone(), outcome.clone()));
            let completing =
                under_way.completing.spawn(async move { outbox.complete(&message, outcome, COMPLETE_ATTEMPTS).await });
            under_way.incomplete.insert(completing.id(), kept);
        }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("mailer", &self.mailer).field("sender", &self.sender).finish_non_exhaustive()
    }
}
