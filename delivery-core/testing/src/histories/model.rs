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

use super::message::{Message, State};
use super::step::{Answer, Step, Told};
use crate::Behaviour;

/// When histories begin, in milliseconds since 1970.
pub(super) const BEGINNING: i64 = 1_795_255_200_000;
/// `9999-12-31T23:59:59Z`.
const NEVER: i64 = 253_402_300_799;
/// Terms of the products 1 and 2, in days and uses: its own, and those of the service.
const TERMS: [(i64, i64); 2] = [(2, 3), (365, -1)];
pub(super) const BUYERS: [&str; 3] = ["ada@example.com", "Bob@example.com", "eve@shop.example"];
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
    /// Whether it is revoked for nothing but a dispute.
    disputed: bool,
    order: Option<u8>,
    expires: i64,
    /// The e-mail that brings it.
    message: Option<Message>,
    /// The e-mail that says that it was revoked, since its payment was refunded.
    revocation: Option<Message>,
}

/// What an e-mail says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the e-mails that histories have")]
pub enum Topic {
    /// Here is the key.
    Sold,
    /// The key was revoked after a refund.
    Refunded,
}

/// What a platform has reported of an order.
#[derive(Debug, Clone, Default)]
struct Deal {
    key: Option<usize>,
    is_refunded: bool,
    is_disputed: bool,
    is_won: bool,
    /// Who has paid while it was disputed.
    waiting: Vec<usize>,
}

/// All there is.
#[derive(Clone)]
pub struct Model {
    now: i64,
    /// The keys, in the order of their issue.
    pub keys: Vec<Key>,
    mailer: Behaviour,
    deals: [Deal; 3],
    /// E-mails that the mail server took, of which key and what they say; twice where it hung up after the dot.
    pub accepted: Vec<(usize, Topic)>,
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
        let (keys, accepted, deals) = (Vec::new(), Vec::new(), <[Deal; 3]>::default());
        Just(Self { now: BEGINNING, keys, mailer: Behaviour::Accept, deals, accepted, answer: Answer::None }).boxed()
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
        let told = select(vec![Told::Paid, Told::Paid, Told::Refunded, Told::Disputed, Told::Won]);
        let event = (0..3_u8, told, buyer(), 0..2_u8).prop_map(|(order, told, buyer, copy)| Step::Event {
            order,
            told,
            buyer,
            copy,
        });
        prop_oneof![
            5 => order,
            5 => event,
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
            // Which of two buyers gets the key of one sale that waits is not promised: it is the one that is looked at first.
            Step::Event { order, told: Told::Paid, buyer, .. } => {
                state.deals[usize::from(*order)].waiting.first().is_none_or(|first| first == buyer)
            }
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
            Step::Event { order, told, buyer, .. } => {
                state.told(usize::from(order), told, buyer);
                Answer::None
            }
            Step::Revoke { key } => {
                (state.keys[key].revoked, state.keys[key].disputed) = (true, false);
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

    fn told(&mut self, order: usize, told: Told, buyer: usize) {
        let mut deal = self.deals[order].clone();
        match told {
            Told::Paid if deal.key.is_some() || deal.is_refunded => {}
            Told::Paid if deal.is_disputed && !deal.is_won => deal.waiting.push(buyer),
            Told::Paid => deal.key = Some(self.sell(1, buyer, None, (None, None), true)),
            Told::Refunded if !deal.is_refunded => {
                deal.is_refunded = true;
                if let Some(key) = deal.key.map(|key| &mut self.keys[key]) {
                    if !key.revoked || key.disputed {
                        key.revocation = Some(Message::queued(self.now));
                    }
                    (key.revoked, key.disputed) = (true, false);
                }
            }
            Told::Disputed if !deal.is_disputed => {
                deal.is_disputed = true;
                if let Some(key) = deal.key.filter(|key| !deal.is_won && !self.keys[*key].revoked) {
                    (self.keys[key].revoked, self.keys[key].disputed) = (true, true);
                }
            }
            Told::Won if !deal.is_won => {
                deal.is_won = true;
                if let Some(key) = deal.key.filter(|key| self.keys[*key].disputed) {
                    (self.keys[key].revoked, self.keys[key].disputed) = (false, false);
                }
                let first = deal.waiting.first().copied().filter(|_| deal.key.is_none() && !deal.is_refunded);
                deal.key = deal.key.or_else(|| first.map(|buyer| self.sell(1, buyer, None, (None, None), true)));
            }
            Told::Refunded | Told::Disputed | Told::Won => {}
        }
        self.deals[order] = deal;
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
        let message = message.then(|| Message::queued(queued));
        let (revoked, disputed, revocation) = (false, false, None);
        self.keys.push(Key { product, buyer, order, expires, limit, used: 0, revoked, disputed, message, revocation });
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
            let messages = [(&mut key.message, Topic::Sold), (&mut key.revocation, Topic::Refunded)];
            for (message, topic) in messages {
                let Some(message) = message.as_mut().filter(|message| message.is_due(self.now)) else { continue };
                if matches!(self.mailer, Behaviour::Accept | Behaviour::AcceptThenFail) {
                    self.accepted.push((number, topic));
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

    fn resend(&mut self) -> Answer {
        let now = self.now;
        let mut failed = Vec::new();
        for (number, key) in self.keys.iter_mut().enumerate() {
            let messages = [key.message.as_mut(), key.revocation.as_mut()].into_iter().flatten();
            for message in messages.filter(|message| message.has_failed()) {
                if failed.is_empty() {
                    *message = Message::queued(now);
                }
                failed.push(number);
            }
        }
        Answer::Resent(failed)
    }
}
