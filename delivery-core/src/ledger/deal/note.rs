//! Records the facts that a report states.

use super::facts::Said;
use super::step::ReportOutcome;
use super::{Captured, Charge, ChargeRef, Charged, Deal, Dispute, Extent, Links, Refund, Report, SubscriptionReport};

const NO_CHANGE: &str = "it changes no key";
const UNKNOWN: &str = "no sale of this payment is known here";

impl Deal {
    /// Records a report. Returns the outcome that follows from the facts alone. [`outcome`](Self::outcome) may replace
    /// it once the changes to keys are known.
    pub(super) fn note(&mut self, report: &Report) -> ReportOutcome {
        match report {
            Report::Charged(charged) => self.note_charge(charged),
            Report::Captured(Captured { payment, at, total, .. }) => {
                let money = self.payments.entry(payment.as_str().to_owned()).or_default();
                money.captured = money.captured.max(Some(*at));
                money.total = money.total.max(*total);
                ReportOutcome::Nothing("no authorised sale of this payment is known here")
            }
            Report::Subscription(word) => self.note_subscription(word),
            Report::Refunded(refund) => self.note_refund(refund),
            Report::Kept { of, at } => {
                let money = self.money(of);
                money.kept = money.kept.max(Some(*at));
                let is_back = money.refunded.is_some() && money.refunded <= money.kept;
                if is_back { ReportOutcome::Restored } else { ReportOutcome::Nothing("the money stays") }
            }
            Report::Disputed(Dispute { of, number, extent, is_lost, .. }) => {
                let lines = match extent {
                    Extent::Full => &[][..],
                    Extent::Lines { lines, .. } => lines,
                    Extent::Partial { refund } => return self.note_part(of, refund),
                };
                let (money, number) = (self.money(of), number.clone().unwrap_or_default());
                let is_won = money.won.contains(&number);
                money.lost.extend(is_lost.then(|| number.clone()));
                money.disputed.entry(number).or_insert_with(|| lines.to_vec());
                if is_won || money.disputes().is_empty() {
                    return ReportOutcome::Nothing("the seller has won this dispute");
                }
                ReportOutcome::Revoked(self.if_unknown())
            }
            // A dispute about a part of the money revokes nothing, so its end restores nothing.
            Report::Won(Dispute { extent: Extent::Partial { .. }, .. }) => ReportOutcome::Nothing(NO_CHANGE),
            Report::Won(Dispute { of, number, end, .. }) => {
                let money = self.money(of);
                match end {
                    Some(end) => money.ends.insert(end.clone()),
                    None => money.won.insert(number.clone().unwrap_or_default()),
                };
                ReportOutcome::Restored
            }
            Report::Linked(links) => {
                self.link(links);
                ReportOutcome::LINKS
            }
        }
    }

    fn note_charge(&mut self, charged: &Charged) -> ReportOutcome {
        self.charge(charged.order.as_str()).pay(charged);
        self.link(&Links { order: None, ..charged.links.clone() });
        if let Some(first) = &charged.links.order {
            self.charge(first.as_str()).guess(&charged.links);
        }
        ReportOutcome::Known
    }

    fn note_subscription(&mut self, word: &SubscriptionReport) -> ReportOutcome {
        self.link(&word.links);
        if let Some(subscription) = &word.links.subscription {
            let order = word.links.order.as_ref().map(|order| order.as_str().to_owned());
            let (standing, term, lines) = (word.standing, word.term, word.lines.clone());
            let subscription = subscription.as_str().to_owned();
            self.words.insert(Said { at: word.at, subscription, order, lines, standing, term });
        }
        ReportOutcome::Nothing(NO_CHANGE)
    }

    fn note_refund(&mut self, refund: &Refund) -> ReportOutcome {
        let Refund { of, links, extent, cause, at } = refund;
        match of {
            ChargeRef::Order(order) => self.charge(order.as_str()).link(links),
            ChargeRef::Payment(payment) => self.link(&Links { payment: Some(payment.clone()), ..links.clone() }),
        }
        match (extent, of) {
            (Extent::Full, _) => {
                self.money(of).take_back(*cause, *at);
                if self.is_paid_beside(of) {
                    ReportOutcome::PartlyRefunded
                } else {
                    ReportOutcome::Revoked(self.if_unknown())
                }
            }
            (Extent::Lines { refund, lines }, ChargeRef::Order(order)) => {
                let charge = self.charge(order.as_str());
                let before = charge.returned_products();
                if charge.returned.insert(refund.clone(), lines.clone()).is_some() {
                    return ReportOutcome::Known;
                }
                // If the order is not known yet, the refunded pieces may be all of its pieces.
                let may_be_all = !charge.is_paid() && lines.iter().any(|line| line.pieces > 0);
                if may_be_all || charge.returned_products() != before {
                    return ReportOutcome::Revoked(self.if_unknown());
                }
                self.note_part(of, refund)
            }
            (Extent::Partial { refund } | Extent::Lines { refund, .. }, _) => self.note_part(of, refund),
        }
    }

    /// Records a partial refund, or a dispute about a part of the money. `refund` distinguishes it from others:
    /// either the platform's id of it, or the sum that has been refunded up to now.
    fn note_part(&mut self, of: &ChargeRef, refund: &str) -> ReportOutcome {
        let is_new = self.money(of).partial.insert(refund.to_owned());
        if is_new { ReportOutcome::PartlyRefunded } else { ReportOutcome::Known }
    }

    /// Called when `of` was refunded in full. Returns whether `of` is a payment for a charge that still counts as paid,
    /// for example because another payment paid a part of the invoice.
    fn is_paid_beside(&self, of: &ChargeRef) -> bool {
        let ChargeRef::Payment(payment) = of else { return false };
        let is_its = |charge: &&Charge| self.payments_of(charge).contains(payment.as_str());
        self.charges.values().filter(is_its).any(|charge| !self.money_of(charge).is_refunded())
    }

    /// Returns the reason why a report about money concerns no key. Returns `None` if the sale is known, because the
    /// report may then concern keys.
    fn if_unknown(&self) -> Option<&'static str> {
        let is_any = self.charges.values().any(Charge::is_paid);
        (!is_any).then_some(UNKNOWN)
    }
}
