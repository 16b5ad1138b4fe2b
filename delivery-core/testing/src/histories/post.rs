//! The post of the naive model: what is tried, and what failed.

use super::message::{State, Topic};
use super::model::Model;
use super::step::Answer;
use crate::Behaviour;

impl Model {
    /// The worker tries all e-mails that are due.
    pub(super) fn work(&mut self) -> Answer {
        let (mut sent, mut deferred, mut failed) = (0, 0, 0);
        for (number, key) in self.keys.iter_mut().enumerate() {
            let (is_over, expires) = (key.revoked || key.expires * 1000 <= self.now || key.is_used_up(), key.expires);
            let (has_heir, buyer) = (key.successor.is_some(), key.buyer);
            for message in key.messages.iter_mut().filter(|message| message.is_due(self.now)) {
                let is_outdated = match message.topic {
                    Topic::Expiring(told) => is_over || told != expires,
                    Topic::Sold | Topic::Again | Topic::Successor => has_heir,
                    Topic::Refunded => false,
                };
                if is_outdated {
                    message.give_up();
                    failed += 1;
                    continue;
                }
                if matches!(self.mailer, Behaviour::Accept | Behaviour::AcceptThenFail) {
                    // The address may have been corrected.
                    self.accepted.push((number, message.topic, buyer));
                }
                match message.attempt(self.now, self.mailer) {
                    State::Sent => sent += 1,
                    State::Waiting => deferred += 1,
                    State::Failed => failed += 1,
                }
            }
        }
        Answer::Worked(sent, deferred, failed)
    }

    /// The keys of e-mails that failed, all of which are to be tried again.
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
