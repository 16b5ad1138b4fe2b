//! Applies the reports of a platform's event. Each report is recorded in the deal of its sale, which contains
//! everything that the platform has reported about the sale. The deal decides which steps follow. The steps are subject
//! to the same rules as all other changes of keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{InboundEvent, Received};
use crate::email::Email;
use crate::key::{Actor, Change, Key, KeyId, LimitChange, Reason, Revocation};
use crate::ledger::deal::{Captured, Charged, Deal, Offer, Report, ReportOutcome, Reported, Step, Why};
use crate::ledger::inbox::{EventOutcome, names_buyer};
use crate::ledger::plan::{DealRow, Planner, ReferenceId};
use crate::ledger::{Action, Issue, MessageKind, StoreError};
use crate::terms::{MAX_USES, UseLimit, Uses};

impl Planner<'_> {
    /// Applies reports one after another. Returns the outcome and the reason of the first report that needs the
    /// seller's attention or, if there is none, of the last report. Without reports, the event is ignored.
    pub(super) fn apply(
        &mut self,
        inbound: &InboundEvent,
        reports: &[Report],
        received: &mut Received,
        keys: &mut BTreeSet<KeyId>,
    ) -> Result<(EventOutcome, Option<String>), StoreError> {
        let mut all = (EventOutcome::Ignored, Some("no sale is affected".to_owned()));
        for report in reports {
            let (outcome, missing) = self.report(inbound, report, received, keys)?;
            let came_to = match (outcome, missing) {
                (
                    ReportOutcome::Issued
                    | ReportOutcome::Renewed
                    | ReportOutcome::Restored
                    | ReportOutcome::Known
                    | ReportOutcome::Authorised,
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

    /// Records a report in its deal and carries out the steps that follow. Returns the report's outcome and, if the
    /// seller must complete the report, what is missing.
    fn report(
        &mut self,
        inbound: &InboundEvent,
        report: &Report,
        received: &mut Received,
        keys: &mut BTreeSet<KeyId>,
    ) -> Result<(ReportOutcome, Option<String>), StoreError> {
        let named = report.references().into_iter().map(|(kind, name)| inbound.reference(kind, name));
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
            self.keep_deal(DealRow { deal: Deal::merged_into(row.number), ..other });
        }
        let mut is_named = false;
        for reference in named {
            if self.loaded.deal_of(&reference)?.is_none() {
                self.loaded.insert_reference(reference.clone(), row.number);
                self.writes.inbox.references.push((reference, row.number));
                is_named = true;
            }
        }
        let (by, before) = (Actor::platform(inbound.source()), row.deal.clone());
        let expiries: BTreeMap<KeyId, DateTime<Utc>> = self.expiries(&row.deal)?;
        let Reported { came, is_incomplete, mut steps } =
            row.deal.report(report, &|key| expiries.get(&key).copied(), inbound.grace);
        while !steps.is_empty() {
            for step in steps {
                let done = match step {
                    Step::Issue(order, offer, until) => {
                        let key = self.sell(offer, until, received)?;
                        row.deal.sold(order, offer, &key);
                        Some(key.id())
                    }
                    Step::Note(key) => self.note(key, inbound.at, &by)?.then_some(key),
                    step => self.step(step, inbound, &by, received)?,
                };
                keys.extend(done);
            }
            // The issued keys may need further steps, because of facts that were reported before the keys existed.
            steps = row.deal.settle(report, inbound.grace);
        }
        let missing = match report {
            Report::Charged(Charged { missing, .. }) | Report::Captured(Captured { missing, .. }) => missing.clone(),
            _ => None,
        };
        let mut outcome = (came, missing.filter(|_| is_incomplete));
        // A failed refund names no buyer, and the seller must hear of it.
        if !matches!(report, Report::Kept { .. }) && self.is_of_erased(&row.deal, inbound)? {
            // An event that waits, or may be applied later, keeps its content, which names the buyer. So an event about
            // a person whose data was erased is done.
            outcome = (came.of_erased(), None);
        }
        if row.version == 0 || is_named || deals.len() > 1 || row.deal != before {
            self.keep_deal(row);
        }
        Ok(outcome)
    }

    /// Issues the key of an offer. If the purchase already has a key, returns that key instead. A new key expires at
    /// `until` or, if that is `None`, at the time in the offer.
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

    /// Returns when each key of a deal expires, by the id under which the key was issued. A key that was replaced has
    /// the expiry of its last successor.
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

    /// Returns whether the event names the sale of a buyer whose data was erased.
    pub(super) fn names_erased_buyer(&mut self, inbound: &InboundEvent) -> Result<bool, StoreError> {
        for reference in inbound.references() {
            if let Some(number) = self.loaded.deal_of(&reference)? {
                let deal = self.loaded.deal(number)?.deal.clone();
                if self.is_of_erased(&deal, inbound)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether the event is about a person whose data was erased. The deal says so, or one of its keys. But the
    /// address of a key, or of its successor, may have been corrected before the wrong address was erased. If the keys
    /// have another address now, only an event that does not name that address, but a third one, is about the person.
    fn is_of_erased(&mut self, deal: &Deal, inbound: &InboundEvent) -> Result<bool, StoreError> {
        let (mut emails, mut is_erased) = (Vec::new(), deal.is_buyer_erased());
        for id in deal.keys() {
            is_erased |= self.loaded.key(id)?.is_some_and(|row| row.key.email().is_erased());
            let heir = self.heir(id)?;
            emails.extend(self.loaded.key(heir)?.map(|row| row.key.email().clone()));
        }
        if emails.is_empty() {
            return Ok(is_erased);
        }
        if emails.iter().any(Email::is_erased) {
            return Ok(true);
        }
        let body = inbound.event.body.as_deref().unwrap_or_default();
        let mut named = body.split("\"email\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        let names_another = named.any(|it| it.contains('@')) && !emails.iter().any(|email| names_buyer(body, email));
        Ok(is_erased && names_another)
    }

    /// Carries out a step that changes a key. If the key was replaced, its last successor is changed instead. Returns
    /// the id of the changed key; `None` if no key was changed.
    fn step(
        &mut self,
        step: Step<'_>,
        inbound: &InboundEvent,
        by: &Actor,
        received: &mut Received,
    ) -> Result<Option<KeyId>, StoreError> {
        let (Step::Add(id, ..) | Step::Until(id, _) | Step::Revoke(id, _) | Step::Lift(id, _)) = step else {
            return Ok(None);
        };
        let id = self.heir(id)?;
        let Some(key) = self.loaded.key(id)?.map(|row| row.key.clone()) else { return Ok(None) };
        let Some((kind, change)) = change_of(step, &key, inbound.at, by) else { return Ok(None) };
        let mut messages = (inbound.notices)(kind)?;
        if matches!(step, Step::Revoke(_, Why::Refunded)) {
            // Only a refund is announced by e-mail. A buyer who disputed a payment or cancelled an order already knows
            // of it.
            messages.extend((inbound.notices)(MessageKind::Revoked)?);
        }
        let (changed, _) = self.change(id, &change, &messages)?;
        let Some(Ok(changed)) = changed.filter(|changed| changed.as_ref().is_ok_and(|it| it.state() != key.state()))
        else {
            return Ok(None);
        };
        received.changed.push((kind, changed));
        Ok(Some(id))
    }

    /// Adds an audit entry for a partial refund. Returns `false` if the key is unknown.
    fn note(&mut self, id: KeyId, at: DateTime<Utc>, actor: &Actor) -> Result<bool, StoreError> {
        let id = self.heir(id)?;
        let Some(unit) = self.unit(id)? else { return Ok(false) };
        self.log(unit, at, actor, Action::PartlyRefunded, None)?;
        Ok(true)
    }
}

/// Returns how many uses to add to a key because more pieces were bought. The key already has the uses of `pieces`
/// pieces, and should have the uses of all pieces of the offer. Returns `None` if the offer has no use limit, or if
/// there is nothing to add.
fn uses_beyond(pieces: u64, offer: &Offer) -> Option<Uses> {
    let UseLimit::Uses(all) = offer.sale.key.limit else { return None };
    if all.get() == MAX_USES {
        // The number of uses may have been cut off at the maximum, so the share of one piece is unknown. The maximum is
        // added instead, which is safe because a key's limit never exceeds it.
        return Some(all);
    }
    let uses = u64::from(all.get()) / offer.pieces.max(1) * offer.pieces.saturating_sub(pieces);
    match UseLimit::from_count(i64::try_from(uses).ok()?) {
        Ok(UseLimit::Uses(uses)) => Some(uses),
        _ => None,
    }
}

/// Returns the change that a step makes, and the kind of webhook that announces it; `None` if there is nothing to
/// change. A revocation is lifted only if the same platform made it for the same reason.
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
