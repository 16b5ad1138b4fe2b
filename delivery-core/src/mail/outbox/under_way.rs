//! Messages that are being sent.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::{self, JoinError, JoinSet};

use crate::clock::{Clock, SystemClock};
use crate::ledger::{Lease, LeasedMessage, Outcome, Recipient};
use crate::mail::MailError;
use crate::redact::why;

/// The maximum number of e-mails in progress at once. An e-mail that was handed to the mailer at least [`LONG`] ago
/// does not count. Webhooks do not count either, so that slow receivers of webhooks hardly delay e-mails.
pub(super) const CONCURRENCY: usize = 16;
/// The maximum number of messages in progress at once, counting all e-mails and all webhooks.
pub(super) const MOST: usize = 256;
/// After this time, the mail server is assumed to have received an e-mail that was handed to the mailer. The time is
/// longer than the minute that connecting and naming the recipient may take. The server may then take up to ten minutes
/// to reply. Meanwhile the e-mail does not count towards [`CONCURRENCY`], so that other e-mails can be sent.
pub(super) const LONG: Duration = Duration::from_secs(95);

/// A message that is being sent.
pub(super) struct Sending {
    pub(super) message: LeasedMessage,
    /// When the e-mail was handed to the mailer, on the monotonic clock. Empty before that, and for webhooks.
    pub(super) handed_over: Arc<OnceLock<Duration>>,
}

/// The messages in progress. Each is sent by its own task, so that a panic affects no other message.
#[derive(Default)]
pub(super) struct UnderWay {
    pub(super) tasks: JoinSet<Result<(), MailError>>,
    pub(super) messages: HashMap<task::Id, Sending>,
    /// The messages whose sending has ended, with their outcomes. Storing these outcomes has not begun yet.
    pub(super) ended: Vec<(LeasedMessage, Outcome)>,
    pub(super) completing: JoinSet<()>,
    /// The messages whose outcomes are being stored, with these outcomes.
    pub(super) incomplete: HashMap<task::Id, (LeasedMessage, Outcome)>,
}

impl Sending {
    fn is_email(&self) -> bool {
        matches!(self.message.recipient, Recipient::Email(_))
    }

    pub(super) fn is_long(&self) -> bool {
        self.handed_over.get().is_some_and(|since| SystemClock.monotonic().saturating_sub(*since) >= LONG)
    }
}

impl UnderWay {
    /// Handles a message that was leased again. If the message is still in progress, its old lease has expired, because
    /// the renewal came too late. The message then takes over the new lease. It is not sent a second time, because that
    /// would deliver another copy. Returns `false` if the message is not in progress, so that it has to be sent.
    pub(super) fn resume(&mut self, leased: &LeasedMessage) -> bool {
        let number = leased.lease.message;
        let sending = self.messages.values_mut().map(|sending| &mut sending.message);
        let mut known = sending.chain(self.ended.iter_mut().map(|(message, _)| message));
        if let Some(message) = known.find(|message| message.lease.message == number) {
            message.lease = leased.lease;
            return true;
        }
        // The outcome of the message is being stored with the expired lease, so the store ignores it. Store the outcome
        // again, with the new lease.
        let mut incomplete = self.incomplete.values();
        let Some((message, outcome)) = incomplete.find(|(message, _)| message.lease.message == number) else {
            return false;
        };
        self.ended.push((LeasedMessage { lease: leased.lease, ..message.clone() }, outcome.clone()));
        true
    }

    /// Returns the leases to renew.
    pub(super) fn leases(&self) -> Vec<Lease> {
        let sending = self.messages.values().map(|sending| &sending.message);
        let known = sending.chain(self.ended.iter().chain(self.incomplete.values()).map(|(message, _)| message));
        known.map(|message| message.lease).collect()
    }

    /// Removes from `incomplete` the messages whose outcomes have been stored by now.
    pub(super) fn note_completed(&mut self) {
        while let Some(completed) = self.completing.try_join_next_with_id() {
            self.note(completed);
        }
    }

    pub(super) fn note(&mut self, completed: Result<(task::Id, ()), JoinError>) {
        let id = completed.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        self.incomplete.remove(&id);
        if let Err(error) = completed {
            let error = why(&error);
            tracing::error!(error, "the store panicked: an e-mail's outcome is lost, and it will be sent again");
        }
    }

    pub(super) fn room(&self) -> usize {
        let brief = self.messages.values().filter(|sending| sending.is_email() && !sending.is_long()).count();
        CONCURRENCY.saturating_sub(brief).min(MOST.saturating_sub(self.messages.len()))
    }
}
