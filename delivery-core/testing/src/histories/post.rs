//! The outbox of the naive model: which e-mails are tried, and which failed.

use super::message::{State, Topic};
use super::model::Model;
use super::step::Answer;
use crate::Behaviour;

impl Model {
    /// Tries all e-mails that are due, as the worker does.
    pub(super) fn work(&mut self) -> Answer {
        let (mut sent, mut deferred, mut failed) = (0, 0, 0);
        for (number, key) in self.keys.iter_mut().enumerate() {
            let (is_over, expires) = (key.revoked || key.expires * 1000 <= self.now || key.is_used_up(), key.expires);
            let (is_revoked, has_heir, buyer) = (key.revoked, key.successor.is_some(), key.buyer);
            for message in key.messages.iter_mut().filter(|message| message.is_due(self.now)) {
                let is_outdated = match message.topic {
                    Topic::Expiring(told) => is_over || told != expires,
                    Topic::Sold | Topic::Again | Topic::Successor => has_heir,
                    Topic::Refunded => !is_revoked,
                };
                if is_outdated {
                    message.give_up();
                    failed += 1;
                    continue;
                }
                // An e-mail with a revoked key is tried again: the revocation may be lifted.
                let waits = is_revoked && matches!(message.topic, Topic::Sold | Topic::Again | Topic::Successor);
                let mailer = if waits { Behaviour::FailTransient } else { self.mailer };
                if matches!(mailer, Behaviour::Accept | Behaviour::AcceptThenFail) {
                    // The e-mail goes to the key's current address, which may have been corrected.
                    self.accepted.push((number, message.topic, buyer));
                }
                match message.attempt(self.now, mailer) {
                    State::Sent => sent += 1,
                    State::Waiting => deferred += 1,
                    State::Failed => failed += 1,
                }
            }
        }
        Answer::Worked(sent, deferred, failed)
    }

    /// Queues all failed e-mails again, and returns their keys.
    pub(super) fn resend(&mut self) -> Answer {
        let now = self.now;
        let mut failed = Vec::new();
        for (number, key) in self.keys.iter_mut().enumerate() {
            for message in key.messages.iter_mut().filter(|message| message.has_failed()) {
                message.renew(now);
                failed.push(number);
            }
        }
        Answer::Resent(failed)
    }
}
