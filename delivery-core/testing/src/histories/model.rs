//! The whole service, naively: lists, and the rules as the API's documentation words them.
//!
//! [`Model`] is a reference for `proptest-state-machine`: its transitions are [`Step`]s, and after each of them [`Model::answer`] is
//! what the service must answer.

use std::fmt;

use chrono::{DateTime, SecondsFormat};
use proptest::prelude::*;
use proptest::sample::select;
use proptest_state_machine::ReferenceStateMachine;
use serde_json::{Value, json};

use super::step::{Answer, Step};
use crate::Behaviour;

/// When histories begin, in milliseconds since 1970.
pub(super) const BEGINNING: i64 = 1_795_255_200_000;
/// `9999-12-31T23:59:59Z`.
const NEVER: i64 = 253_402_300_799;
/// Terms of the products 1 and 2, in days and uses: its own, and those of the service.
const TERMS: [(i64, i64); 2] = [(2, 3), (365, -1)];
pub(super) const BUYERS: [&str; 3] = ["ada@example.com", "Bob@example.com", "eve@shop.example"];
/// Seconds to the second, third, … attempt at an e-mail, then always the last; on day five it is given up.
const RETRIES: [i64; 8] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 43_200];
const GIVE_UP: i64 = 5 * 86_400_000;
/// Unless it was tried fewer times than this.
const FEWEST: usize = 15;
/// An e-mail that may have been taken skips so many of the first waits.
const SKIPPED: usize = 4;
/// An e-mail that is due later than this was made so by a clock that was wrong.
const FARTHEST: i64 = 13 * 3_600_000;

/// A key, as the model has it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Key {
    /// What it unlocks.
    pub product: i64,
    /// Who bought it.
    pub buyer: usize,
    /// How often it may be used; -1 without a limit.
    pub limit: i64,
    /// How often it was used.
    pub used: i64,
    /// Whether it is revoked.
    pub revoked: bool,
    order: Option<u8>,
    expires: i64,
    message: Option<Message>,
}

#[derive(Debug, Clone)]
struct Message {
    queued: i64,
    due: i64,
    attempts: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Sent,
    Failed,
}

/// All there is.
#[derive(Clone)]
pub struct Model {
    now: i64,
    /// The keys, in the order of their issue.
    pub keys: Vec<Key>,
    mailer: Behaviour,
    /// E-mails that the mail server took, twice where it hung up after the dot.
    pub accepted: Vec<usize>,
    /// What the last step must be answered with.
    pub answer: Answer,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        let (keys, accepted) = (Vec::new(), Vec::new());
        Just(Self { now: BEGINNING, keys, mailer: Behaviour::Accept, accepted, answer: Answer::None }).boxed()
    }

    fn transitions(state: &Self) -> BoxedStrategy<Step> {
        let key = || 0..state.keys.len().max(1);
        // The last is no product.
        let product = || select(vec![1_i64, 2, 1, 2, 9]);
        let buyer = || 0..BUYERS.len();
        let days = select(vec![None, Some(1), Some(2), Some(-1)]);
        let uses = select(vec![None, Some(1), Some(2), Some(-1)]);
        let time = prop_oneof![
            4 => 1..10_000_i64,
            2 => select(vec![61_000, 3_600_000, 6 * 3_600_000, 13 * 3_600_000]),
            2 => select(vec![86_400_000, 86_400_000 - 1, 2 * 86_400_000, 6 * 86_400_000]),
            1 => select(vec![-1, -5_000, -86_400_000]),
        ];
        let behaviour = select(vec![
            Behaviour::Accept,
            Behaviour::Accept,
            Behaviour::FailTransient,
            Behaviour::FailPermanent,
            Behaviour::AcceptThenFail,
        ]);
        let order =
            (0..4_u8, product(), buyer()).prop_map(|(order, product, buyer)| Step::Order { order, product, buyer });
        let issue = (product(), buyer(), days, uses, any::<bool>())
            .prop_map(|(product, buyer, days, uses, message)| Step::Issue { product, buyer, days, uses, message });
        let fetch = (key(), product()).prop_map(|(key, product)| Step::Fetch { key, product });
        let head = (key(), product()).prop_map(|(key, product)| Step::Head { key, product });
        prop_oneof![
            5 => order,
            3 => issue,
            3 => key().prop_map(|key| Step::Validate { key }),
            9 => fetch,
            1 => head,
            1 => key().prop_map(|key| Step::Forged { key }),
            1 => key().prop_map(|key| Step::Revoke { key }),
            5 => time.prop_map(|milliseconds| Step::Clock { milliseconds }),
            2 => behaviour.prop_map(Step::Mailer),
            4 => Just(Step::Work),
            1 => Just(Step::Resend),
            2 => any::<bool>().prop_map(|crash| Step::Restart { crash }),
        ]
        .boxed()
    }

    fn preconditions(state: &Self, step: &Step) -> bool {
        match step {
            Step::Validate { key }
            | Step::Fetch { key, .. }
            | Step::Head { key, .. }
            | Step::Forged { key }
            | Step::Revoke { key } => *key < state.keys.len(),
            _ => true,
        }
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        state.answer = match *step {
            Step::Order { order, product, buyer } => state.order(order, product, buyer),
            Step::Issue { product, buyer, days, uses, message } => state.issue(product, buyer, (days, uses), message),
            Step::Validate { key } => state.validate(key),
            Step::Fetch { key, product } => state.fetch(key, product, true),
            Step::Head { key, product } => match state.fetch(key, product, false) {
                Answer::Http(status, _) => Answer::Http(status, Value::Null),
                other => other,
            },
            Step::Forged { .. } => error(401, "INVALID_KEY"),
            Step::Revoke { key } => {
                state.keys[key].revoked = true;
                Answer::None
            }
            Step::Clock { milliseconds } => {
                state.now += milliseconds;
                Answer::None
            }
            Step::Mailer(behaviour) => {
                state.mailer = behaviour;
                Answer::None
            }
            Step::Work => state.work(),
            Step::Resend => state.resend(),
            Step::Restart { .. } => Answer::None,
        };
        state
    }
}

fn error(status: u16, code: &str) -> Answer {
    Answer::Http(status, json!({ "error": { "code": code } }))
}

impl Model {
    fn order(&mut self, order: u8, product: i64, buyer: usize) -> Answer {
        if product == 9 {
            return error(404, "NOT_FOUND");
        }
        let known = self.keys.iter().position(|key| key.order == Some(order) && key.product == product);
        Answer::Key(known.unwrap_or_else(|| self.sell(product, buyer, Some(order), (None, None), true)))
    }

    fn issue(&mut self, product: i64, buyer: usize, terms: (Option<i64>, Option<i64>), message: bool) -> Answer {
        if product == 9 {
            return error(404, "NOT_FOUND");
        }
        Answer::Key(self.sell(product, buyer, None, terms, message))
    }

    fn sell(
        &mut self,
        product: i64,
        buyer: usize,
        order: Option<u8>,
        (days, uses): (Option<i64>, Option<i64>),
        message: bool,
    ) -> usize {
        let own = TERMS[usize::from(product == 2)];
        let (days, limit) = (days.unwrap_or(own.0), uses.unwrap_or(own.1));
        let expires = if days < 0 { NEVER } else { self.now.div_euclid(1000) + days * 86_400 };
        // A key is issued, and its e-mail due, at a whole second.
        let queued = self.now.div_euclid(1000) * 1000;
        let message = message.then_some(Message { queued, due: queued, attempts: 0, state: State::Waiting });
        self.keys.push(Key { product, buyer, order, expires, limit, used: 0, revoked: false, message });
        self.keys.len() - 1
    }

    fn expired(&self, key: &Key) -> bool {
        self.now >= key.expires * 1000
    }

    fn validate(&self, key: usize) -> Answer {
        let key = &self.keys[key];
        let code = match () {
            () if key.revoked => {
                return Answer::Http(401, json!({ "valid": false, "error": { "code": "INVALID_KEY" } }));
            }
            () if self.expired(key) => Some("EXPIRED_KEY"),
            () if key.used == key.limit => Some("EXCEEDED_USES"),
            () => None,
        };
        let expires_at =
            DateTime::from_timestamp(key.expires, 0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut body = json!({
            "valid": code.is_none(),
            "product_id": key.product,
            "expires_at": expires_at,
            "used_count": key.used,
            "remaining_uses": if key.limit < 0 { -1 } else { key.limit - key.used },
        });
        if let Some(code) = code {
            body["error"] = json!({ "code": code });
        }
        Answer::Http(if code.is_none() { 200 } else { 403 }, body)
    }

    fn fetch(&mut self, number: usize, product: i64, counts: bool) -> Answer {
        let key = &self.keys[number];
        match () {
            () if key.revoked => error(401, "INVALID_KEY"),
            () if self.expired(key) => error(403, "EXPIRED_KEY"),
            () if product == 9 => error(404, "NOT_FOUND"),
            () if key.product != product => error(403, "WRONG_PRODUCT"),
            () if key.used == key.limit => error(403, "EXCEEDED_USES"),
            () => {
                self.keys[number].used += i64::from(counts);
                let product =
                    json!({ "id": product, "name": format!("Product {product}"), "type": "digital", "content": "# x" });
                Answer::Http(200, json!({ "product": product }))
            }
        }
    }

    fn work(&mut self) -> Answer {
        let (mut sent, mut deferred, mut failed) = (0, 0, 0);
        for (number, key) in self.keys.iter_mut().enumerate() {
            let Some(message) = &mut key.message else { continue };
            let due = message.due <= self.now || message.due > self.now + FARTHEST;
            if message.state != State::Waiting || !due {
                continue;
            }
            message.queued = message.queued.min(self.now);
            if matches!(self.mailer, Behaviour::Accept | Behaviour::AcceptThenFail) {
                self.accepted.push(number);
            }
            message.attempts += 1;
            let skipped = if self.mailer == Behaviour::AcceptThenFail { SKIPPED } else { 0 };
            let wait = RETRIES[(message.attempts - 1 + skipped).min(RETRIES.len() - 1)] * 1000;
            let (next, last) = (self.now + wait, message.queued + GIVE_UP);
            // The last attempt is made on day five itself, once.
            let next =
                if self.now < last { Some(next.min(last)) } else { Some(next).filter(|_| message.attempts < FEWEST) };
            match self.mailer {
                Behaviour::Accept => (message.state, sent) = (State::Sent, sent + 1),
                Behaviour::FailPermanent => (message.state, failed) = (State::Failed, failed + 1),
                _ if next.is_none() => (message.state, failed) = (State::Failed, failed + 1),
                _ => (message.due, deferred) = (next.unwrap_or_default(), deferred + 1),
            }
        }
        Answer::Worked(sent, deferred, failed)
    }

    fn resend(&mut self) -> Answer {
        let now = self.now;
        let has_failed = |key: &Key| key.message.as_ref().is_some_and(|message| message.state == State::Failed);
        let failed: Vec<usize> = (0..self.keys.len()).filter(|key| has_failed(&self.keys[*key])).collect();
        if let Some(first) = failed.first() {
            self.keys[*first].message = Some(Message { queued: now, due: now, attempts: 0, state: State::Waiting });
        }
        Answer::Resent(failed)
    }
}
