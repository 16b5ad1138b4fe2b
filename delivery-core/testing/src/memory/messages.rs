//! The message queue in memory.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::records::names;
use delivery_core::email::Email;
use delivery_core::key::{Key, KeyId};
use delivery_core::ledger::{
    FailedMessage, Lease, LeasedMessage, MessageId, MessageKind, MessageNumber, NewMessage, Outcome, Recipient, Route,
};
use delivery_core::store::{LONGEST_LEASE, MAX_RETRY_DELAY, MessageState, StoredMessage};

#[derive(Default)]
pub(super) struct Queue(BTreeMap<MessageNumber, Entry>);

struct Entry {
    id: MessageId,
    kind: MessageKind,
    recipient: Recipient,
    key: KeyId,
    queued_at: DateTime<Utc>,
    attempts: u32,
    token: i64,
    state: State,
    /// Why the last attempt failed.
    reason: Option<String>,
    /// The route by which the last attempt failed.
    route: Option<Route>,
}

enum State {
    Due(DateTime<Utc>),
    Leased(DateTime<Utc>),
    Sent(DateTime<Utc>),
    Failed(DateTime<Utc>, String, Route),
}

/// A leased message without its key.
pub(super) struct Claimed {
    lease: Lease,
    kind: MessageKind,
    recipient: Recipient,
    message_id: MessageId,
    attempt: u32,
    queued_at: DateTime<Utc>,
}

impl Claimed {
    pub(super) fn with_key(self, key: Key) -> LeasedMessage {
        let Self { lease, kind, recipient, message_id, attempt, queued_at } = self;
        LeasedMessage { lease, kind, recipient, message_id, key, attempt, queued_at }
    }
}

impl Entry {
    /// Returns when the message is due, if it is due by `now`. A time too far ahead, which a correct clock cannot have
    /// written, counts as past.
    fn due(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ahead = |at: DateTime<Utc>, most| at.signed_duration_since(now) > most;
        match self.state {
            State::Due(due) => Some(due).filter(|due| *due <= now || ahead(*due, MAX_RETRY_DELAY)),
            State::Leased(end) => Some(end).filter(|end| *end <= now || ahead(*end, LONGEST_LEASE)),
            State::Sent(_) | State::Failed(..) => None,
        }
    }

    fn renew(&mut self, now: DateTime<Utc>) {
        (self.state, self.attempts, self.queued_at) = (State::Due(now), 0, now);
        (self.reason, self.route) = (None, None);
    }
}

impl Queue {
    pub(super) fn add(&mut self, message: &NewMessage, key: KeyId) {
        let NewMessage { number, id, kind, recipient, at, .. } = message.clone();
        let (attempts, token, state, reason, route) = (0, 0, State::Due(at), None, None);
        let entry = Entry { id, kind, recipient, key, queued_at: at, attempts, token, state, reason, route };
        self.0.insert(MessageNumber::new(number), entry);
    }

    pub(super) fn claim(
        &mut self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Vec<(Claimed, KeyId)> {
        let due = self.0.iter().filter_map(|(number, entry)| Some((entry.due(now)?, *number)));
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        let mut claimed = Vec::new();
        for (_, message) in due.into_iter().take(limit) {
            let Some(entry) = self.0.get_mut(&message) else { continue };
            entry.state = State::Leased(lease_until);
            entry.queued_at = entry.queued_at.min(now);
            entry.attempts += 1;
            entry.token += 1;
            let lease = Lease { message, token: entry.token };
            let (kind, recipient, message_id) = (entry.kind, entry.recipient.clone(), entry.id.clone());
            let (attempt, queued_at) = (entry.attempts, entry.queued_at);
            claimed.push((Claimed { lease, kind, recipient, message_id, attempt, queued_at }, entry.key));
        }
        claimed
    }

    pub(super) fn renew(&mut self, leases: &[Lease], until: DateTime<Utc>) {
        for lease in leases {
            if let Some(entry) = self.leased(*lease) {
                entry.state = State::Leased(until);
            }
        }
    }

    pub(super) fn complete(&mut self, lease: Lease, outcome: &Outcome) {
        let Some(entry) = self.leased(lease) else { return };
        entry.reason = match outcome {
            Outcome::Sent { .. } | Outcome::Release => None,
            Outcome::Retry { reason, .. } | Outcome::Postpone { reason, .. } | Outcome::Fail { reason, .. } => {
                Some(reason.clone())
            }
        };
        entry.state = match outcome {
            Outcome::Sent { at } => State::Sent(*at),
            Outcome::Retry { due, route, .. } => {
                entry.route = *route;
                State::Due(*due)
            }
            Outcome::Postpone { due, .. } => {
                (entry.attempts, entry.route) = (entry.attempts - 1, None);
                State::Due(*due)
            }
            Outcome::Fail { at, reason, route } => State::Failed(*at, reason.clone(), *route),
            Outcome::Release => {
                (entry.attempts, entry.route) = (entry.attempts - 1, None);
                State::Due(entry.queued_at)
            }
        };
        // A completed lease is over: its token cannot complete the message a second time.
        entry.token += 1;
    }

    /// Returns the result of `make` for each failed message. `make` takes the key's id, and a function from the key to
    /// the message.
    pub(super) fn failed<T>(
        &self,
        make: impl Fn(KeyId, &dyn Fn(Key) -> FailedMessage) -> T,
    ) -> impl Iterator<Item = T> {
        self.0.iter().filter_map(move |(message, entry)| match &entry.state {
            State::Failed(failed_at, reason, _) => Some(make(entry.key, &|key| FailedMessage {
                message: *message,
                kind: entry.kind,
                recipient: entry.recipient.clone(),
                key,
                attempts: entry.attempts,
                failed_at: *failed_at,
                reason: reason.clone(),
            })),
            _ => None,
        })
    }

    /// Makes a failed message due now, and returns its key. Returns `None` if the message has not failed.
    pub(super) fn retry(&mut self, message: MessageNumber, now: DateTime<Utc>) -> Option<KeyId> {
        let failed = self.0.get_mut(&message).filter(|entry| matches!(entry.state, State::Failed(..)))?;
        failed.renew(now);
        Some(failed.key)
    }

    /// Returns the messages, newest first.
    pub(super) fn stored(&self) -> impl Iterator<Item = StoredMessage> {
        self.0.iter().rev().map(|(message, entry)| {
            let (state, at) = match entry.state {
                State::Due(at) | State::Leased(at) => (MessageState::Queued, at),
                State::Sent(at) => (MessageState::Sent, at),
                State::Failed(at, ..) => (MessageState::Failed, at),
            };
            StoredMessage {
                message: *message,
                kind: entry.kind,
                key: entry.key,
                recipient: entry.recipient.clone(),
                state,
                attempts: entry.attempts,
                queued_at: entry.queued_at,
                at,
                reason: entry.reason.clone(),
            }
        })
    }

    /// Replaces an address by `pseudonym` in the messages of keys that have the address (`has`) or had it before a
    /// correction (`had`). Queued messages of keys that have the address are removed. Queued messages of keys that had
    /// the address stay, because they are sent to the corrected address.
    pub(super) fn erase(
        &mut self,
        email: &Email,
        pseudonym: &Email,
        (has, had): (impl Fn(&KeyId) -> bool, impl Fn(&KeyId) -> bool),
    ) {
        let is_its = |entry: &Entry| matches!(&entry.recipient, Recipient::Email(to) if to.is_same(email));
        self.0.retain(|_, entry| {
            !(has(&entry.key) && is_its(entry) && matches!(entry.state, State::Due(_) | State::Leased(_)))
        });
        for entry in self.0.values_mut().filter(|entry| has(&entry.key) || had(&entry.key)) {
            if is_its(entry) {
                entry.recipient = Recipient::Email(pseudonym.clone());
            }
            if let State::Failed(_, reason, _) = &mut entry.state
                && names(reason, email)
            {
                "erased".clone_into(reason);
            }
            if entry.reason.as_ref().is_some_and(|reason| names(reason, email)) {
                entry.reason = Some("erased".to_owned());
            }
        }
    }

    pub(super) fn retry_all(&mut self, route: Option<Route>, now: DateTime<Utc>) -> u64 {
        let mut count = 0;
        for entry in self.0.values_mut() {
            match entry.state {
                State::Failed(_, _, by) if Some(by) != route => entry.renew(now),
                State::Due(_) if entry.route.is_some() && entry.route != route => {
                    (entry.state, entry.reason, entry.route) = (State::Due(now), None, None);
                }
                _ => continue,
            }
            count += 1;
        }
        count
    }

    fn leased(&mut self, lease: Lease) -> Option<&mut Entry> {
        let entry = self.0.get_mut(&lease.message)?;
        (entry.token == lease.token && matches!(entry.state, State::Leased(_))).then_some(entry)
    }
}
