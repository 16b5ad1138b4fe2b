//! Stores a platform's event and applies it. An event that the platform sends again is not stored or applied again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Answer, Operate, Subject};
use crate::key::{Actor, Key};
use crate::ledger::deal::{BUYER_ERASED, MOST_PRODUCTS, Offer, ReferenceKind, Report};
use crate::ledger::inbox::{Customer, DISMISSED, EventOutcome, InboxEvent, TEST_PURCHASE, sales_named};
use crate::ledger::plan::{Basis, Needs, Planner, ReferenceId};
use crate::ledger::{Action, Edit, MOST_WEBHOOKS, MessageKind, Notice, StoreError};
use crate::order::{OrderId, Source};

/// The maximum number of row numbers that an event takes, besides the numbers for the keys that it issues. Nine numbers
/// are for the event's inbox row, the event's deals, and an audit entry if a person applies the event. The others are
/// for four changes of each key. Each change needs numbers for an audit entry, the webhooks and an e-mail.
const NUMBERS: usize = 9 + 4 * MOST_PRODUCTS * (2 + MOST_WEBHOOKS);
/// An event that waits for the seller is first tried again after this pause. The pause doubles with each attempt, up to
/// `LONGEST_RETRY`, or up to `RARE_RETRY` for an old event.
const FIRST_RETRY: TimeDelta = TimeDelta::seconds(15);
const LONGEST_RETRY: TimeDelta = TimeDelta::hours(1);
/// The longest pause between two attempts for an old event. It must be less than 13 hours. If an event is due more than
/// 13 hours from now, a store assumes that a wrong clock set the time, and treats the event as due at once.
const RARE_RETRY: TimeDelta = TimeDelta::hours(12);
/// An event is old if it was received longer ago than this.
const OLD: TimeDelta = TimeDelta::days(1);

/// A new platform event to store, or an event of the inbox to apply.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct InboundEvent {
    /// The event. A new event has version 0, and gets its number and version when it is stored. An event of the inbox
    /// has the version that the caller read.
    pub event: InboxEvent,
    /// What to do with the event. If `None`, the event is only stored, and is applied when it is due.
    pub step: Option<Handling>,
    /// The current time.
    pub at: DateTime<Utc>,
    /// The grace period: how long a subscription's key is valid beyond the time that is paid for.
    pub grace: TimeDelta,
    /// Creates the messages that announce a change of a key. Each call creates new messages. The function gets the
    /// kind of a webhook, or [`Revoked`](MessageKind::Revoked) for the e-mail to the buyer after a refund.
    pub notices: Notices,
    /// The person who applies the event by hand, for the audit log; `None` if the event is applied automatically. The
    /// body in `event` includes what this person has added to the event, such as the buyer's address.
    pub by: Option<Actor>,
}

/// A function that creates the messages that announce a change of a key.
pub type Notices = Arc<dyn Fn(MessageKind) -> Result<Vec<Notice>, StoreError> + Send + Sync>;

/// What to do with an event. A new event that is applied, dismissed or about a test purchase does not keep its content
/// if the data of the sale's buyer was [erased](crate::ledger::Deal::with_buyer_erased). A failed refund, which names no
/// buyer, keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "nothing else can be done with an event")]
pub enum Handling {
    /// Apply these reports.
    Apply(Vec<Report>),
    /// Store the address of a customer.
    Remember(Customer),
    /// Let the event wait for the seller, for this reason.
    Wait(String),
    /// Do nothing, for this reason.
    Ignore(String),
    /// Do nothing, because the event is about a test purchase. The event's content is kept until the event is pruned.
    Test,
    /// Do nothing, because the seller has dismissed the event, or has marked the products of all its lines as not sold
    /// here. The event's content is kept until the event is pruned.
    Dismiss,
}

/// The result of receiving an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Received {
    /// Whether the event was new.
    pub is_new: bool,
    /// Whether another call changed the event after a person read it and before that person applied it. If so, nothing
    /// was done, and the caller must read the event again.
    pub is_outdated: bool,
    /// The event as it is in the inbox now.
    pub event: InboxEvent,
    /// Keys that were issued.
    pub issued: Vec<Key>,
    /// Keys that were changed, each with the kind of webhook that announces the change.
    pub changed: Vec<(MessageKind, Key)>,
}

impl Received {
    /// Returns a result in which nothing was issued or changed yet.
    fn unchanged(is_new: bool, event: InboxEvent) -> Self {
        Self { is_new, is_outdated: false, event, issued: Vec::new(), changed: Vec::new() }
    }
}

impl Operate for InboundEvent {
    fn needs(&self, needs: &mut Needs) {
        needs.events.insert(self.event.id.clone());
        needs.references.extend(self.references());
        self.offers().for_each(|offer| offer.sale.needs(needs));
    }

    fn numbers(&self) -> usize {
        NUMBERS + self.offers().map(|offer| offer.sale.numbers()).sum::<usize>()
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Event(&self.event.id)
    }

    fn needs_transaction(&self) -> bool {
        true
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        Ok((Answer::Received(Box::new(planner.receive(self)?)), Basis::Read))
    }
}

impl InboundEvent {
    /// Returns whether the caller has read the event from the inbox, so that the event's version is not 0. If not, the
    /// caller has just received the event from the platform.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.event.version != 0
    }

    pub(crate) fn reports(&self) -> &[Report] {
        match &self.step {
            Some(Handling::Apply(reports)) => reports,
            _ => &[],
        }
    }

    fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.reports().iter().flat_map(|report| report.offers().0)
    }

    /// Returns the references of the sales that the event is about. They are needed to apply it, and to decide whether
    /// a new event that is not applied may keep its content. Returns none for any other event, so that it is stored and
    /// dismissed even if its deal cannot be read.
    pub(super) fn references(&self) -> Vec<ReferenceId> {
        match &self.step {
            Some(Handling::Apply(reports)) => {
                let named = reports.iter().flat_map(Report::references);
                named.map(|(kind, name)| self.reference(kind, name)).collect()
            }
            Some(Handling::Test | Handling::Dismiss) if self.by.is_none() => {
                let named = self.event.body.as_deref().map(sales_named).unwrap_or_default();
                named.iter().map(|(kind, name)| self.reference(*kind, name)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether a person applies, rather than dismisses, an event that is done but
    /// [can still be applied](InboxEvent::can_be_applied).
    fn takes_back(&self, event: &InboxEvent) -> bool {
        let is_done = event.due_at.is_none() && event.can_be_applied();
        self.by.is_some() && is_done && !matches!(self.step, Some(Handling::Dismiss))
    }

    pub(super) fn source(&self) -> &Source {
        &self.event.id.source
    }

    pub(super) fn reference(&self, kind: ReferenceKind, name: &OrderId) -> ReferenceId {
        ReferenceId { source: self.source().clone(), kind, name: name.clone() }
    }
}

impl Planner<'_> {
    fn receive(&mut self, inbound: &InboundEvent) -> Result<Received, StoreError> {
        let id = &inbound.event.id;
        let known = self.loaded.event(id)?.cloned();
        let (is_new, mut is_added) = (known.is_none(), false);
        let is_taken_back = known.as_ref().is_some_and(|event| inbound.takes_back(event));
        let event = match known {
            // There is nothing to do: the platform sent the event again, or another call finished the event first.
            Some(event) if !inbound.is_retry() || (event.due_at.is_none() && !is_taken_back) => {
                return Ok(Received::unchanged(is_new, event));
            }
            // The event was changed after the caller read it. Nothing is done, and the caller must read it again.
            Some(event) if inbound.by.is_some() && event.version != inbound.event.version => {
                return Ok(Received { is_outdated: true, ..Received::unchanged(is_new, event) });
            }
            // The stored body is replaced, because the new one includes what the person added, such as an address.
            Some(event) if inbound.by.is_some() => {
                is_added = event.body != inbound.event.body;
                InboxEvent { body: inbound.event.body.clone(), ..event }
            }
            Some(event) => event,
            None => InboxEvent { number: self.number(&inbound.event)?, version: 0, ..inbound.event.clone() },
        };
        // If another call wrote the event after the caller read it, that call may have made the event due earlier, for
        // example because a missing product was added. The earlier due time is then kept.
        let is_due = event.version != inbound.event.version;
        let due_at = event.due_at.filter(|_| is_due);
        let mut received = Received::unchanged(is_new, event);
        if let Some(handling) = &inbound.step {
            self.handle(inbound, handling, &mut received)?;
        }
        let is_done = received.event.outcome != Some(EventOutcome::NeedsAttention);
        if let Some(by) = inbound.by.as_ref().filter(|_| is_added || is_done || is_taken_back) {
            let is_dismissed = received.event.is_dismissed();
            let action = if is_dismissed { Action::Dismissed } else { Action::EventApplied };
            let detail = Some(format!("{} {}", id.source, id.name));
            let edit = Edit { at: inbound.at, by: by.clone(), detail };
            self.writes.inbox.applied.push((self.numbers.take_at(inbound.at)?, action, edit));
        }
        let later = &mut received.event.due_at;
        *later = later.map(|later| due_at.map_or(later, |due_at| due_at.min(later)));
        self.keep_event(received.event.clone());
        Ok(received)
    }

    /// Takes a number for a new event. An event that was received in a later second gets a greater number, even if
    /// another server received it.
    fn number(&mut self, event: &InboxEvent) -> Result<i64, StoreError> {
        self.numbers.take_at(event.received_at)
    }

    fn handle(
        &mut self,
        inbound: &InboundEvent,
        handling: &Handling,
        received: &mut Received,
    ) -> Result<(), StoreError> {
        let mut keys = BTreeSet::new();
        let (outcome, reason) = match handling {
            Handling::Apply(reports) => self.apply(inbound, reports, received, &mut keys)?,
            // The event would keep its content, which names the buyer.
            Handling::Test | Handling::Dismiss if self.names_erased_buyer(inbound)? => {
                (EventOutcome::Ignored, Some(BUYER_ERASED.to_owned()))
            }
            Handling::Remember(customer) => {
                self.writes.inbox.customers.push(customer.clone());
                (EventOutcome::Remembered, None)
            }
            Handling::Wait(reason) => (EventOutcome::NeedsAttention, Some(reason.clone())),
            Handling::Ignore(reason) => (EventOutcome::Ignored, Some(reason.clone())),
            Handling::Test => (EventOutcome::Ignored, Some(TEST_PURCHASE.to_owned())),
            Handling::Dismiss => (EventOutcome::Ignored, Some(DISMISSED.to_owned())),
        };
        let event = &mut received.event;
        keys.extend(event.keys.iter().copied());
        event.keys = keys.into_iter().collect();
        event.due_at = (outcome == EventOutcome::NeedsAttention).then(|| {
            let pause = FIRST_RETRY * 2_i32.saturating_pow(event.attempts.min(16));
            let is_old = inbound.at.signed_duration_since(event.received_at) > OLD;
            inbound.at + pause.min(if is_old { RARE_RETRY } else { LONGEST_RETRY })
        });
        (event.outcome, event.reason) = (Some(outcome), reason);
        if !event.can_be_applied() {
            // The body names a buyer. It is deleted, because nothing needs it any more.
            event.body = None;
        }
        Ok(())
    }
}

impl fmt::Debug for InboundEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundEvent").field("event", &self.event.id).finish_non_exhaustive()
    }
}
