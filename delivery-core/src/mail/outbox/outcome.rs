//! Decides and stores the outcome of an attempt to send a message.

use chrono::TimeDelta;

use super::{Outbox, POLL};
use crate::entropy::fraction;
use crate::error::explain;
use crate::ledger::{LeasedMessage, Outcome, Recipient};
use crate::mail::{Failure, MailError, retry};
use crate::observer::Event;
use crate::telemetry;
use crate::throttle::log_seldom;

/// The delay before the next attempt if something failed before the message was handed over.
const SOON: TimeDelta = TimeDelta::minutes(1);
/// The number of attempts to store an outcome, a second apart. If all of them fail, the lease expires, and the message
/// is sent again.
pub(super) const COMPLETE_ATTEMPTS: usize = 600;

/// The minimum time from the start of storing an outcome until the message is due again. Without this minimum, the
/// message could be due before the outcome is stored, for example if the store was unavailable for a while.
const NOTED: TimeDelta = TimeDelta::seconds(1);

/// How an attempt ended.
pub(super) enum AttemptEnd {
    Sent,
    Deferred,
    Failed,
}

impl Outbox {
    /// Decides the outcome of an attempt from the mailer's `result`, and logs the decision.
    pub(super) fn judge(&self, message: &LeasedMessage, result: Result<(), MailError>) -> (Outcome, AttemptEnd) {
        let now = self.clock.now();
        let (key, kind, attempt) = (message.key.id(), message.kind.as_str(), message.attempt);
        let error = match result {
            Ok(()) => {
                match &message.recipient {
                    Recipient::Email(_) => tracing::info!(%key, attempt, "e-mail sent"),
                    Recipient::Webhook(webhook) => tracing::info!(%key, kind, %webhook, attempt, "webhook sent"),
                }
                return (Outcome::Sent { at: now }, AttemptEnd::Sent);
            }
            Err(error) => error,
        };
        // A `MailError` hides keys and addresses, so it may be logged and stored.
        let (reason, said) = (error.to_string(), explain(&error));
        if error.kind() == Failure::NotTried {
            let due = now.checked_add_signed(SOON).unwrap_or(now);
            tracing::warn!(%key, kind, error = said, "message not tried yet");
            return (Outcome::Postpone { due, reason }, AttemptEnd::Deferred);
        }
        let due = retry::due(error.kind(), attempt, (message.queued_at, now), fraction(self.entropy.as_ref()));
        if let Some(due) = due {
            let next = crate::clock::timestamp(due);
            match &message.recipient {
                Recipient::Email(_) => tracing::warn!(%key, attempt, next, error = said, "e-mail not sent yet"),
                Recipient::Webhook(webhook) => {
                    tracing::warn!(%key, kind, %webhook, attempt, next, error = said, "webhook not sent yet");
                }
            }
            let route = (error.kind() != Failure::Unconfirmed).then_some(self.route);
            (Outcome::Retry { due, reason, route }, AttemptEnd::Deferred)
        } else {
            match &message.recipient {
                Recipient::Email(_) if self.outdated(message).is_some() => {
                    tracing::info!(%key, kind, reason, "e-mail not sent: it is outdated");
                }
                Recipient::Email(_) if message.kind.brings_key() => {
                    tracing::error!(%key, attempt, error = said, "e-mail failed: the buyer has no key");
                }
                Recipient::Email(_) => tracing::warn!(%key, kind, attempt, error = said, "e-mail failed"),
                Recipient::Webhook(webhook) => {
                    tracing::error!(%key, kind, %webhook, attempt, error = said, "webhook failed: its receiver was not told");
                }
            }
            (Outcome::Fail { at: now, reason, route: self.route }, AttemptEnd::Failed)
        }
    }

    /// Counts a stored outcome in the metrics, and notifies observers.
    fn note(&self, message: &LeasedMessage, outcome: Outcome) {
        let (key, kind, attempt) = (message.key.id(), message.kind, message.attempt);
        let to = message.recipient.addressee();
        match outcome {
            Outcome::Sent { .. } => {
                telemetry::message("sent");
                self.observers.tell(|| Event::MessageSent { key, kind, to, attempt });
            }
            Outcome::Fail { reason, .. } => {
                telemetry::message("failed");
                if self.outdated(message).is_none() {
                    self.observers.tell(|| Event::MessageFailed { key, kind, to, reason });
                }
            }
            Outcome::Retry { .. } => telemetry::message("retried"),
            // These outcomes do not count as attempts.
            Outcome::Postpone { .. } | Outcome::Release => {}
        }
    }

    pub(super) async fn complete(&self, message: &LeasedMessage, outcome: Outcome, attempts: usize) {
        for attempt in 1..=attempts {
            // If the message is to be sent again, it is due a second later at the earliest. A message that is due at
            // once could be leased again before this worker knows that its outcome is stored. The worker would then
            // store the same outcome again with the new lease, possibly without end.
            let noted = self.clock.now().checked_add_signed(NOTED).unwrap_or_default();
            let kept = outcome.clone().not_due_before(noted);
            let Err(error) = self.ledger.complete_message(message.lease, kept).await else {
                return self.note(message, outcome);
            };
            log_seldom!(warn, error = &error, "a message's outcome is not stored yet");
            if attempt < attempts {
                tokio::time::sleep(POLL).await;
            }
        }
    }
}
