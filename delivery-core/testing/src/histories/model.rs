//! A naive model of the whole service: plain lists, and the rules as the API's documentation states them.
//!
//! [`Model`] is a reference state machine for `proptest-state-machine`. Its transitions are [`Step`]s, and after each
//! of them [`Model::answer`] is what the service must answer.

use std::collections::BTreeMap;
use std::fmt;

use proptest::prelude::*;
use proptest::sample::select;
use proptest_state_machine::ReferenceStateMachine;
use serde_json::Value;

use super::message::{Message, Topic};
use super::step::{Answer, Limit, OrderReport, Step};
use crate::Behaviour;

/// The time at which histories begin, in milliseconds since 1970.
pub(super) const BEGINNING: i64 = 1_795_255_200_000;
/// `9999-12-31T23:59:59Z`, in seconds since 1970.
pub(super) const NEVER: i64 = 253_402_300_799;
/// The terms of the products 1 and 2, in days and uses. Product 1 has its own terms; product 2 has those of the
/// service.
pub(super) const TERMS: [(i64, i64); 2] = [(2, 3), (365, -1)];
pub(super) const BUYERS: [&str; 3] = ["ada@example.com", "Bob@example.com", "eve@shop.example"];
/// The names of files. The first two differ only in the case of letters.
pub(super) const FILES: [&str; 3] = ["a.pdf", "A.pdf", "b.pdf"];
/// A key in the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Key {
    /// The product that the key unlocks.
    pub product: i64,
    /// The buyer, by index.
    pub buyer: usize,
    /// How often the key may be used; -1 without a limit.
    pub limit: i64,
    /// How often the key was used.
    pub used: i64,
    /// Whether the key is revoked.
    pub revoked: bool,
    /// When the key expires, in seconds since 1970.
    pub expires: i64,
    /// The value of `expires` when the key was sold.
    pub(super) granted: i64,
    /// The number of uses taken over from the key that this one replaced.
    pub inherited: i64,
    /// Whether a dispute is the only reason for the revocation.
    pub(super) disputed: bool,
    pub(super) order: Option<u8>,
    /// When the key was issued, in seconds since 1970.
    pub issued: i64,
    /// The key that replaced this one.
    pub(super) successor: Option<usize>,
    /// The value of `expires` of which the buyer was notified.
    pub(super) noticed: Option<i64>,
    pub(super) messages: Vec<Message>,
}

impl Key {
    /// Returns the buyer's address.
    #[must_use]
    pub fn email(&self) -> &'static str {
        BUYERS.get(self.buyer).copied().unwrap_or_default()
    }
}

/// What a platform has reported about an order.
#[derive(Debug, Clone, Default)]
pub(super) struct Deal {
    pub(super) key: Option<usize>,
    pub(super) is_refunded: bool,
    pub(super) is_disputed: bool,
    pub(super) is_won: bool,
    /// The buyers who paid while the order was disputed.
    pub(super) waiting: Vec<usize>,
}

/// A fetch that may be repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) key: usize,
    pub(super) name: u8,
    pub(super) product: i64,
    pub(super) at: i64,
    pub(super) repeats: u32,
}

/// The state of the whole service.
#[derive(Clone)]
pub struct Model {
    pub(super) now: i64,
    /// The keys, in the order in which they were issued.
    pub keys: Vec<Key>,
    pub(super) mailer: Behaviour,
    pub(super) requests: Vec<Request>,
    pub(super) deals: [Deal; 3],
    /// The file names of the products 1 and 2, by the same names in lower case.
    pub(super) files: [BTreeMap<String, &'static str>; 2],
    /// The rule of the host application.
    pub(super) judge: Option<fn(&Key, i64) -> Option<&'static str>>,
    /// The e-mails that the mail server accepted: the key, the topic and the buyer. If the mail server accepts an
    /// e-mail and then hangs up, the e-mail is sent again, and the list has one item for each accepted attempt.
    pub accepted: Vec<(usize, Topic, usize)>,
    /// The answer that the service must give to the last step.
    pub answer: Answer,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

impl Model {
    /// Returns the state before the first step.
    pub(super) fn new() -> Self {
        Self {
            now: BEGINNING,
            keys: Vec::new(),
            mailer: Behaviour::Accept,
            requests: Vec::new(),
            deals: <[Deal; 3]>::default(),
            files: <[BTreeMap<_, _>; 2]>::default(),
            judge: None,
            accepted: Vec::new(),
            answer: Answer::None,
        }
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::new()).boxed()
    }

    fn transitions(state: &Self) -> BoxedStrategy<Step> {
        let key = || 0..state.keys.len().max(1);
        // There is no product 9.
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
        let report = select(vec![
            OrderReport::Paid,
            OrderReport::Paid,
            OrderReport::Refunded,
            OrderReport::Disputed,
            OrderReport::Won,
        ]);
        let event = (0..3_u8, report, buyer(), 0..2_u8).prop_map(|(order, report, buyer, copy)| Step::Event {
            order,
            report,
            buyer,
            copy,
        });
        let once =
            (key(), product(), 0..2_u8).prop_map(|(key, product, request)| Step::FetchOnce { key, product, request });
        let limit = select(vec![1, 2, 4]);
        let limit = prop_oneof![
            2 => Just(None),
            2 => prop_oneof![3 => limit.clone(), 1 => Just(-1)].prop_map(|uses| Some(Limit::Set(uses))),
            2 => limit.prop_map(|uses| Some(Limit::Add(uses))),
        ];
        let days = (key(), select(vec![None, Some(1), Some(3), Some(20), Some(-1)]));
        let change = (days, limit).prop_map(|((key, days), limit)| Step::Change { key, days, limit });
        let again = (key(), prop_oneof![2 => Just(None), 1 => buyer().prop_map(Some)])
            .prop_map(|(key, buyer)| Step::SendAgain { key, buyer });
        let file = || (1..=2_i64, 0..FILES.len());
        prop_oneof![
            2 => file().prop_map(|(product, name)| Step::PutFile { product, name }),
            1 => file().prop_map(|(product, name)| Step::DeleteFile { product, name }),
            6 => once,
            2 => change,
            2 => again,
            1 => key().prop_map(|key| Step::Rotate { key }),
            1 => key().prop_map(|key| Step::Restore { key }),
            2 => Just(Step::Chores),
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
            | Step::FetchOnce { key, .. }
            | Step::Head { key, .. }
            | Step::Forged { key }
            | Step::Revoke { key }
            | Step::Restore { key }
            | Step::Change { key, .. }
            | Step::SendAgain { key, .. }
            | Step::Rotate { key } => *key < state.keys.len(),
            // If two buyers paid for one disputed order, it is not specified which of them gets the key: the first
            // event that is applied decides.
            Step::Event { order, report: OrderReport::Paid, buyer, .. } => {
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
            Step::Forged { .. } => Answer::error(401, "INVALID_KEY"),
            Step::Event { order, report, buyer, .. } => {
                state.apply_report(usize::from(order), report, buyer);
                Answer::None
            }
            Step::FetchOnce { key, product, request } => state.fetch_once(key, product, request),
            Step::Revoke { key } => {
                (state.keys[key].revoked, state.keys[key].disputed) = (true, false);
                Answer::None
            }
            Step::Restore { key } => state.restore(key),
            Step::Change { key, days, limit } => state.change(key, days, limit),
            Step::SendAgain { key, buyer } => state.send_again(key, buyer),
            Step::Rotate { key } => state.rotate(key),
            Step::PutFile { product, name } => {
                let (files, name) = (&mut state.files[usize::from(product == 2)], FILES[name]);
                Answer::File(files.insert(name.to_lowercase(), name).is_some())
            }
            Step::DeleteFile { product, name } => {
                let files = &mut state.files[usize::from(product == 2)];
                Answer::File(files.remove(&FILES[name].to_lowercase()).is_some())
            }
            Step::Chores => state.chores(),
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
