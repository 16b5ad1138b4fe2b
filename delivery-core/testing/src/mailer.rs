//! A mailer that records its messages and fails on demand.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use delivery_core::mail::{MailError, Mailer, Message};

/// What a [`RecordingMailer`] does with the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Behaviour {
    /// Accepts the message.
    Accept,
    /// Reports a transient failure.
    FailTransient,
    /// Reports a permanent failure.
    FailPermanent,
    /// Accepts the message but reports a failure, like a connection that is lost after the final dot.
    AcceptThenFail,
    /// Panics.
    Panic,
    /// Never returns.
    Hang,
}

/// A mailer that records the messages that it accepts. It accepts every message unless [`then`](Self::then) or
/// [`otherwise`](Self::otherwise) sets another behaviour.
#[derive(Debug, Default)]
pub struct RecordingMailer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    accepted: Vec<Message>,
    attempts: usize,
    script: VecDeque<Behaviour>,
    otherwise: Option<Behaviour>,
}

impl RecordingMailer {
    /// Scripts what to do with the next message, after those already scripted.
    pub fn then(&self, behaviour: Behaviour) {
        self.state().script.push_back(behaviour);
    }

    /// Sets what to do with messages once the script has ended.
    pub fn otherwise(&self, behaviour: Behaviour) {
        self.state().otherwise = Some(behaviour);
    }

    /// Returns the messages accepted so far, oldest first.
    #[must_use]
    pub fn accepted(&self) -> Vec<Message> {
        self.state().accepted.clone()
    }

    /// Returns how many messages were given to the mailer, accepted or not.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.state().attempts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Mailer for RecordingMailer {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let behaviour = {
            let mut state = self.state();
            state.attempts += 1;
            let behaviour = state.script.pop_front().or(state.otherwise).unwrap_or(Behaviour::Accept);
            if matches!(behaviour, Behaviour::Accept | Behaviour::AcceptThenFail) {
                state.accepted.push(message.clone());
            }
            behaviour
        };
        match behaviour {
            Behaviour::Accept => Ok(()),
            Behaviour::FailTransient => Err(MailError::transient("scripted to fail")),
            Behaviour::AcceptThenFail => Err(MailError::unconfirmed("scripted to hang up after the dot")),
            Behaviour::FailPermanent => Err(MailError::permanent("scripted to fail for good")),
            Behaviour::Panic => panic!("scripted to panic"),
            Behaviour::Hang => std::future::pending().await,
        }
    }
}
