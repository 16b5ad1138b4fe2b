//! What an event of a platform comes to: its deal says what is to be done, and the rules of keys do it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{DealRow, InboxWrites, Loaded, Needs, Planner, PurchaseId, ReferenceId};
use crate::key::{Actor, Change, Key, KeyId, LimitChange, Reason, Revocation};
use crate::ledger::deal::{
    Captured, Charged, Deal, MOST_PRODUCTS, Offer, ReferenceKind, Report, ReportOutcome, Reported, Step, Why,
};
use crate::ledger::inbox::{DISMISSED, Entry, EventId, EventOutcome, Handling, Receipt, Received};
use crate::ledger::{Action, Edit, Issue, MOST_WEBHOOKS, MessageKind, StoreError};
use crate::order::{OrderId, Source};
use crate::terms::{MAX_USES, UseLimit, Uses};

/// The numbers that an event takes at most, beside those of the keys it issues: its entry, its deals, who applied it, and for each key
/// four changes, each with an audit entry, the webhooks and an e-mail.
const NUMBERS: usize = 9 + 4 * MOST_PRODUCTS * (2 + MOST_WEBHOOKS);
/// How soon an event that waits for the seller is tried again, at first, and at most.
const FIRST_RETRY: TimeDelta = TimeDelta::seconds(15);
const LONGEST_RETRY: TimeDelta = TimeDelta::hours(1);
/// The same for events that were received longer ago.
const RARE_RETRY: TimeDelta = TimeDelta::days(1);

/// Events and deals that a batch writes.
#[derive(Debug, Default)]
pub(super) struct Touched {
    entries: BTreeSet<EventId>,
    deals: BTreeSet<i64>,
}

impl Touched {
    /// The rows as the batch leaves them.
    pub(super) fn into_writes(self, loaded: &mut Loaded, writes: &mut InboxWrites) {
        writes.entries.extend(self.entries.iter().filter_map(|id| loaded.take_entry(id)));
        writes.deals.extend(self.deals.into_iter().filter_map(|number| loaded.take_deal(number)));
    }
}

impl Receipt {
    pub(super) fn numbers(&self) -> i64 {
        let messages = |offer: &Offer| 1 + usize::from(offer.sale.by.is_some()) + offer.sale.messages.len();
        let issued: usize = self.offers().map(messages).sum();
        i64::try_from(NUMBERS + issued).unwrap_or(i64::MAX)
    }

    pub(super) fn needs(&self, needs: &mut Needs) {
        needs.entries.insert(self.entry.id.clone());
        for report in self.reports() {
            needs.references.extend(report.references().into_iter().map(|(kind, name)| self.reference(kind, name)));
        }
        for offer in self.offers() {
            needs.new.insert(offer.sale.key.id);
            needs.purchases.extend(PurchaseId::of(&offer.sale.key));
        }
    }

    fn reports(&self) -> &[Report] {
        match &self.step {
            Some(Handling::Apply(reports)) => reports,
            _ => &[],
        }
    }

    fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.reports().iter().flat_map(|report| report.offers().0)
    }

    /// Whether somebody has an event applied that was dismissed.
    fn takes_back(&self, entry: &Entry) -> bool {
        self.by.is_some() && entry.is_dismissed() && !matches!(self.step, Some(Handling::Dismiss))
    }

    fn source(&self) -> &Source {
        &self.entry.id.source
    }

    fn reference(&self, kind: ReferenceKind, name: &OrderId) -> ReferenceId {
        ReferenceId { source: self.source().clone(), kind, name: name.clone() }
    }
}

impl Planner<'_> {
    pub(super) fn receive(&mut self, receipt: &Receipt) -> Result<Received, StoreError> {
        let id = &receipt.entry.id;
        let known = self.loaded.entry(id)?.cloned();
        let (is_new, mut is_added) = (known.is_none(), false);
        let is_taken_back = known.as_ref().is_some_and(|entry| receipt.takes_back(entry));
        let entry = match known {
            // A copy, or applied meanwhile.
            Some(entry) if !receipt.is_kept || (entry.due_at.is_none() && !is_taken_back) => {
                return Ok(Received::unchanged(is_new, entry));
            }
            // Somebody else may have added something, which what was read lacks.
            Some(entry) if receipt.by.is_some() && entry.version != receipt.entry.version => {
                return Ok(Received { is_outdated: true, ..Received::unchanged(is_new, entry) });
            }
            // With what was added to it.
            Some(entry) if receipt.by.is_some() => {
                is_added = entry.body != receipt.entry.body;
                Entry { body: receipt.entry.body.clone(), ..entry }
            }
            Some(entry) => entry,
            None => Entry { number: self.number(&receipt.entry)?, version: 0, ..receipt.entry.clone() },
        };
        // Made due while it was looked at: what it waits for may be there now.
        let is_due = receipt.is_kept && entry.version != receipt.entry.version;
        let due_at = entry.due_at.filter(|_| is_due);
        let mut received = Received::unchanged(is_new, entry);
        if let Some(handling) = &receipt.step {
            self.handle(receipt, handling, &mut received)?;
        }
        let is_done = received.entry.outcome != Some(EventOutcome::NeedsAttention);
        if let Some(by) = receipt.by.as_ref().filter(|_| is_added || is_done || is_taken_back) {
            let is_dismissed = received.entry.is_dismissed();
            let action = if is_dismissed { Action::Dismissed } else { Action::EventApplied };
            let detail = Some(format!("{} {}", id.source, id.name));
            let edit = Edit { at: receipt.at, by: by.clone(), detail };
            self.writes.inbox.applied.push((self.numbers.take_at(receipt.at)?, action, edit));
        }
        let later = &mut received.entry.due_at;
        *later = later.map(|later| due_at.map_or(later, |due_at| due_at.min(later)));
        self.loaded.insert_entry(received.entry.clone());
        self.touched.entries.insert(id.clone());
        Ok(received)
    }

    /// The number of a new event: by the time at which it was received, whichever server received it.
    fn number(&mut self, entry: &Entry) -> Result<i64, StoreError> {
        self.numbers.take_at(entry.received_at)
    }

    fn handle(&mut self, receipt: &Receipt, handling: &Handling, received: &mut Received) -> Result<(), StoreError> {
        let mut keys = BTreeSet::new();
        let (outcome, reason) = match handling {
            Handling::Apply(reports) => self.apply(receipt, reports, received, &mut keys)?,
            Handling::Remember(customer) => {
                self.writes.inbox.customers.push(customer.clone());
                (EventOutcome::Remembered, None)
            }
            Handling::Wait(reason) => (EventOutcome::NeedsAttention, Some(reason.clone())),
            Handling::Ignore(reason) => (EventOutcome::Ignored, Some(reason.clone())),
            Handling::Dismiss => (EventOutcome::Ignored, Some(DISMISSED.to_owned())),
        };
        let entry = &mut received.entry;
        keys.extend(entry.keys.iter().copied());
        entry.keys = keys.into_iter().collect();
        entry.due_at = (outcome == EventOutcome::NeedsAttention).then(|| {
            let pause = FIRST_RETRY * 2_i32.saturating_pow(entry.attempts.min(16));
            let is_old = receipt.at.signed_duration_since(entry.received_at) > RARE_RETRY;
            receipt.at + pause.min(if is_old { RARE_RETRY } else { LONGEST_RETRY })
        });
        (entry.outcome, entry.reason) = (Some(outcome), reason);
        if entry.due_at.is_none() && !entry.is_dismissed() {
            // It names a buyer, and is of no use any more.
            entry.body = None;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        receipt: &Receipt,
        reports: &[Report],
        received: &mut Received,
        keys: &mut BTreeSet<KeyId>,
    ) -> Result<(EventOutcome, Option<String>), StoreError> {
        let mut all = (EventOutcome::Ignored, Some("no sale is affected".to_owned()));
        for report in reports {
            let (told, missing) = self.report(receipt, report, received, keys)?;
            let came_to = match (told, missing) {
                (
                    ReportOutcome::Issued | ReportOutcome::Renewed | ReportOutcome::Known | ReportOutcome::Authorised,
                    Some(missing),
                ) => (EventOutcome::NeedsAttention, Some(missing)),
                (ReportOutcome::Authorised, None) => {
                    (EventOutcome::Ignored, Some("its payment was not taken yet".to_owned()))
                }
                (ReportOutcome::Issued, None) => (EventOutcome::Issued, None),
                (ReportOutcome::Known, None) => {
                    (EventOutcome::Ignored, Some("an earlier event did the same".to_owned()))
                }
                (ReportOutcome::Renewed, None) => (EventOutcome::Renewed, None),
                (ReportOutcome::Ended, _) => (EventOutcome::Ended, None),
                (ReportOutcome::Revoked(reason), _) => (EventOutcome::Revoked, reason.map(str::to_owned)),
                (ReportOutcome::Restored, _) => (EventOutcome::Restored, None),
                (ReportOutcome::PartlyRefunded, _) => (EventOutcome::PartialRefund, None),
                (ReportOutcome::Nothing(reason), _) => (EventOutcome::Ignored, Some(reason.to_owned())),
                (ReportOutcome::Lacks, missing) => {
                    let again = || "its product is looked up again in a moment".to_owned();
                    (EventOutcome::NeedsAttention, Some(missing.unwrap_or_else(again)))
                }
                (ReportOutcome::Waits(reason), _) => (EventOutcome::NeedsAttention, Some(reason.to_owned())),
            };
            if all.0 != EventOutcome::NeedsAttention {
                all = came_to;
            }
        }
        Ok(all)
    }

    /// Takes note of a report in its deal, and does what follows. Returns what it came to, and what of it is missing.
    fn report(
        &mut self,
        receipt: &Receipt,
        report: &Report,
        received: &mut Received,
        keys: &mut BTreeSet<KeyId>,
    ) -> Result<(ReportOutcome, Option<String>), StoreError> {
        let named = report.references().into_iter().map(|(kind, name)| receipt.reference(kind, name));
        let named: Vec<ReferenceId> = named.collect();
        let deals = named.iter().filter_map(|reference| self.loaded.deal_of(reference).transpose());
        let deals: BTreeSet<i64> = deals.collect::<Result<_, _>>()?;
        let mut row = match deals.first() {
            Some(first) => self.loaded.deal(*first)?.clone(),
            None => DealRow { number: self.numbers.take()?, version: 0, deal: Deal::default() },
        };
        for other in deals.iter().skip(1) {
            let other = self.loaded.deal(*other)?.clone();
            row.deal.merge(other.deal);
            self.keep(DealRow { deal: Deal::merged_into(row.number), ..other });
        }
        let mut is_named = false;
        for reference in named {
            if self.loaded.deal_of(&reference)?.is_none() {
                self.loaded.insert_reference(reference.clone(), row.number);
                self.writes.inbox.references.push((reference, row.number));
                is_named = true;
            }
        }
        let (by, before) = (Actor::platform(receipt.source()), row.deal.clone());
        let expiries: BTreeMap<KeyId, DateTime<Utc>> = self.expiries(&row.deal)?;
        let Reported { came, is_incomplete, mut steps } =
            row.deal.report(report, &|key| expiries.get(&key).copied(), receipt.grace);
        while !steps.is_empty() {
            for step in steps {
                let done = match step {
                    Step::Issue(order, offer, until) => {
                        let key = self.sell(offer, until, received)?;
                        row.deal.sold(order, offer, &key);
                        Some(key.id())
                    }
                    Step::Note(key) => self.note(key, receipt.at, &by)?.then_some(key),
                    step => self.step(step, receipt, &by, received)?,
                };
                keys.extend(done);
            }
            // What was known before its keys were issued.
            steps = row.deal.settle(report, receipt.grace);
        }
        let missing = match report {
            Report::Charged(Charged { missing, .. }) | Report::Captured(Captured { missing, .. }) => missing.clone(),
            _ => None,
        };
        // What waits keeps what it says, which is about a person who was forgotten.
        let missing = missing.filter(|_| is_incomplete && !self.is_of_erased(&row.deal));
        if row.version == 0 || is_named || deals.len() > 1 || row.deal != before {
            self.keep(row);
        }
        Ok((came, missing))
    }

    /// Issues the key of an offer, until then if that is known.
    fn sell(
        &mut self,
        offer: &Offer,
        until: Option<DateTime<Utc>>,
        received: &mut Received,
    ) -> Result<Key, StoreError> {
        let mut sale = offer.sale.clone();
        if let Some(until) = until {
            sale.key.expires_at = until;
        }
        let (issue, _) = self.issue(&sale)?;
        if let Issue::New(key) = &issue {
            received.issued.push(key.clone());
        }
        Ok(issue.into_key())
    }

    /// When the keys of a deal expire, by the numbers under which they were issued.
    fn expiries(&mut self, deal: &Deal) -> Result<BTreeMap<KeyId, DateTime<Utc>>, StoreError> {
        let mut expiries = BTreeMap::new();
        for id in deal.keys() {
            let heir = self.heir(id)?;
            if let Some(row) = self.loaded.key(heir)? {
                expiries.insert(id, row.key.state().expires_at);
            }
        }
        Ok(expiries)
    }

    /// Whether a key of the deal was sold to a person who was forgotten.
    fn is_of_erased(&mut self, deal: &Deal) -> bool {
        let keys: Vec<KeyId> = deal.keys().collect();
        keys.into_iter().any(|id| matches!(self.loaded.key(id), Ok(Some(row)) if row.key.email().is_erased()))
    }

    fn keep(&mut self, row: DealRow) {
        self.touched.deals.insert(row.number);
        self.loaded.insert_deal(row);
    }

    /// Changes a key. Returns the key, if it was changed.
    fn step(
        &mut self,
        step: Step<'_>,
        receipt: &Receipt,
        by: &Actor,
        received: &mut Received,
    ) -> Result<Option<KeyId>, StoreError> {
        let (Step::Add(id, ..) | Step::Until(id, _) | Step::Revoke(id, _) | Step::Lift(id, _)) = step else {
            return Ok(None);
        };
        let id = self.heir(id)?;
        let Some(key) = self.loaded.key(id)?.map(|row| row.key.clone()) else { return Ok(None) };
        let Some((kind, change)) = change_of(step, &key, receipt.at, by) else { return Ok(None) };
        let mut messages = (receipt.notices)(kind)?;
        if matches!(step, Step::Revoke(_, Why::Refunded)) {
            // Whoever disputed a payment or cancelled an order has done that elsewhere, and knows.
            messages.extend((receipt.notices)(MessageKind::Revoked)?);
        }
        let (changed, _) = self.change(id, &change, &messages)?;
        let Some(Ok(changed)) = changed.filter(|changed| changed.as_ref().is_ok_and(|it| it.state() != key.state()))
        else {
            return Ok(None);
        };
        received.changed.push((kind, changed));
        Ok(Some(id))
    }

    /// Adds to the audit log that a part of the money went back.
    fn note(&mut self, id: KeyId, at: DateTime<Utc>, actor: &Actor) -> Result<bool, StoreError> {
        let id = self.heir(id)?;
        let Some(unit) = self.unit(id)? else { return Ok(false) };
        self.log(unit, at, actor, Action::PartlyRefunded, None)?;
        Ok(true)
    }
}

/// The uses of the pieces of an offer beyond the first `pieces`; `None` without a limit.
fn uses_beyond(pieces: u64, offer: &Offer) -> Option<Uses> {
    let UseLimit::Uses(all) = offer.sale.key.limit else { return None };
    if all.get() == MAX_USES {
        // As many as there can be, whatever a piece has.
        return Some(all);
    }
    let uses = u64::from(all.get()) / offer.pieces.max(1) * offer.pieces.saturating_sub(pieces);
    match UseLimit::from_count(i64::try_from(uses).ok()?) {
        Ok(UseLimit::Uses(uses)) => Some(uses),
        _ => None,
    }
}

/// The change that a step is, and what webhooks are told of it; `None` if there is nothing to change.
fn change_of(step: Step<'_>, key: &Key, at: DateTime<Utc>, by: &Actor) -> Option<(MessageKind, Change)> {
    let (state, by) = (key.state(), by.clone());
    match step {
        Step::Add(_, offer, pieces) => {
            let limit = Some(LimitChange::Add(uses_beyond(pieces, offer)?));
            Some((MessageKind::KeyChanged, Change::SetTerms { at, by, expires_at: None, limit }))
        }
        Step::Until(_, expires_at) => {
            Some((MessageKind::KeyChanged, Change::SetTerms { at, by, expires_at: Some(expires_at), limit: None }))
        }
        Step::Revoke(_, why) => {
            Some((MessageKind::KeyRevoked, Change::Revoke { at, reason: Some(reason_of(why)), by }))
        }
        Step::Lift(_, why) => {
            let is_its = |it: &Arc<Revocation>| it.by == by && it.reason == Some(reason_of(why));
            let is_liftable = state.revoked.as_ref().is_some_and(is_its);
            is_liftable.then_some((MessageKind::KeyRestored, Change::Restore { at, by }))
        }
        Step::Issue(..) | Step::Note(_) => None,
    }
}

fn reason_of(why: Why) -> Reason {
    match why {
        Why::Refunded => Reason::refunded(),
        Why::Cancelled => Reason::cancelled(),
        Why::Disputed => Reason::disputed(),
    }
}
