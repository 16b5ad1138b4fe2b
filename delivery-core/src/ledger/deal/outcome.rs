//! The outcome of a report: what it changed about keys, or why it changed nothing.

use chrono::{DateTime, Utc};

use super::paid::Paid;
use super::settle::Settled;
use super::step::{REFUNDED, ReportOutcome, Step};
use super::view::View;
use super::{Bought, Captured, Charge, ChargeRef, Charged, Deal, Report, Standing, Term};
use crate::product::ProductId;

/// Why a report waits if a product has no key yet and a payment for the product is disputed. The report waits until the
/// dispute ends.
const DISPUTED: &str = "the payment is disputed";
/// Why the report of a failed refund waits if the sale has no key. The refund was reported before the sale, so the sale
/// was ignored.
const REFUND_FAILED: &str = "its refund failed, and its sale has no key: apply the event of the sale, or issue a key by hand, \
    then put this event aside";
/// Why a charge waits if the seller lost a dispute about another charge of the same subscription.
const LOST: &str =
    "a dispute about this subscription was lost, so it has no valid key: issue a key by hand, or put this event aside";

impl Deal {
    /// Returns the outcome of a report. `noted` is what [`note`](Self::note) returned for this report. `was_paid` is
    /// `true` if earlier reports already showed that the report's order was paid.
    pub(super) fn outcome(
        &self,
        (view, settled): (&View<'_>, &Settled<'_>),
        report: &Report,
        noted: ReportOutcome,
        was_paid: bool,
    ) -> ReportOutcome {
        match report {
            Report::Charged(charged) => Self::outcome_of_charge(view, settled, charged.order.as_str(), was_paid),
            Report::Captured(Captured { payment, .. }) => {
                let mut taken = view.paid.iter().filter(|paid| paid.is_taken_by(payment.as_str()));
                let lacks = taken.find_map(|paid| settled.lacks(view, paid));
                lacks.or_else(|| self.changed(settled)).unwrap_or(noted)
            }
            Report::Subscription(word) => {
                let is_link = (word.standing, word.term) == (Standing::Unsaid, Term::Unsaid);
                let came = self.changed(settled).unwrap_or(noted);
                // There may be no later report that offers the keys for a disputed payment. This statement therefore
                // waits for the end of the dispute, and then offers the keys again.
                let products = word.offers.iter().map(|offer| offer.product);
                let paid = word
                    .links
                    .order
                    .iter()
                    .flat_map(|order| products.clone().flat_map(|it| view.of_key(order.as_str(), it)));
                let waits =
                    paid.filter_map(|paid| settled.lacks(view, paid)).find(|it| matches!(it, ReportOutcome::Waits(_)));
                waits.unwrap_or(if is_link { came.of_link() } else { came })
            }
            Report::Linked(_) => self.changed(settled).unwrap_or(noted).of_link(),
            Report::Kept { of, .. } => {
                let is_its = |paid: &&Paid<'_>| paid.is_reported() && self.is_of(paid, of);
                let mut lacking = view.paid.iter().filter(is_its).filter_map(|paid| settled.lacks(view, paid));
                match lacking.next().filter(|_| noted == ReportOutcome::Restored) {
                    Some(ReportOutcome::Lacks) => ReportOutcome::Waits(REFUND_FAILED),
                    Some(waits) => waits,
                    None => noted,
                }
            }
            Report::Refunded(_) | Report::Disputed(_) | Report::Won(_) => noted,
        }
    }

    /// Returns whether `of` names one of the charges of `paid`, or a payment that paid one of these charges.
    fn is_of(&self, paid: &Paid<'_>, of: &ChargeRef) -> bool {
        match of {
            ChargeRef::Order(order) => paid.is(order.as_str()),
            ChargeRef::Payment(payment) => {
                paid.parts.iter().any(|(_, charge, _)| self.payments_of(charge).contains(payment.as_str()))
            }
        }
    }

    fn outcome_of_charge(view: &View<'_>, settled: &Settled<'_>, order: &str, was_paid: bool) -> ReportOutcome {
        let all = || view.paid.iter().filter(|paid| paid.is(order));
        let Some(paid) = all().next() else { return ReportOutcome::Authorised };
        if let Some(lacks) = all().find_map(|paid| settled.lacks(view, paid)) {
            return lacks;
        }
        let is_lost = |product: &ProductId| paid.is_gone(*product) && !settled.holds(view, paid, *product);
        let is_sale = settled.steps.iter().any(Step::is_sale);
        let is_dated = settled.steps.iter().any(|step| step.date().is_some());
        if is_sale {
            ReportOutcome::Issued
        } else if paid.is_all_gone() {
            let is_owed = paid.products.iter().any(|product| !settled.holds(view, paid, *product));
            ReportOutcome::Nothing(if is_owed && paid.may_come_back() {
                REFUNDED
            } else {
                "the money went back before"
            })
        } else if paid.products.is_empty() && paid.is_of_the_past() {
            ReportOutcome::Nothing("it pays for nothing to come")
        } else if paid.products.is_empty() {
            ReportOutcome::Known
        } else if paid.products.iter().all(is_lost) {
            ReportOutcome::Nothing("its lines were refunded before")
        } else if is_dated || !(was_paid || all().any(Paid::is_joined)) {
            ReportOutcome::Renewed
        } else if settled.steps.iter().any(|step| matches!(step, Step::Lift(..))) {
            ReportOutcome::Restored
        } else {
            ReportOutcome::Known
        }
    }

    /// Returns what a report changed about keys. Returns `None` if it issued and revoked nothing and changed no expiry
    /// date.
    fn changed(&self, settled: &Settled<'_>) -> Option<ReportOutcome> {
        let Settled { steps, .. } = settled;
        let is_later =
            |(key, until): (_, DateTime<Utc>)| self.keys.iter().any(|kept| kept.key == key && Some(until) > kept.until);
        let mut dates = steps.iter().filter_map(Step::date).peekable();
        let is_dated = dates.peek().is_some();
        if steps.iter().any(Step::is_sale) {
            Some(ReportOutcome::Issued)
        } else if steps.iter().any(Step::is_revocation) {
            Some(ReportOutcome::Revoked(None))
        } else if dates.any(is_later) {
            Some(ReportOutcome::Renewed)
        } else {
            is_dated.then_some(ReportOutcome::Ended)
        }
    }

    /// Returns whether a charge or capture must wait for the seller. This is so if a product has no key and the report
    /// offers no key for it, or if the seller must still [map](Self::serves) lines of the charged order to products.
    pub(super) fn is_incomplete(&self, view: &View<'_>, report: &Report, came: ReportOutcome) -> bool {
        match report {
            Report::Charged(Charged { order, .. }) => {
                came == ReportOutcome::Lacks || !self.serves(view, order.as_str())
            }
            Report::Captured(_) => came == ReportOutcome::Lacks,
            _ => false,
        }
    }

    /// Returns whether nothing is left for the seller to map: no further line of `order` needs a product. This is so if
    /// one of these is true:
    ///
    /// - At least one of its lines is mapped to a product. Every other line is mapped too, or is something that a
    ///   subscription charges only once, such as a fee.
    /// - None of its lines is mapped. But the order pays for products that other reports name, or only for a time
    ///   before the payment.
    /// - All of its money went back, or a dispute about all of it was lost.
    pub(super) fn serves(&self, view: &View<'_>, order: &str) -> bool {
        let is_mapped = |line: &Bought| line.product.is_some();
        let is_all = |charge: &Charge| {
            let is_fee = |line: &Bought| !charge.subscriptions.is_empty() && line.term == Term::Once;
            charge.lines.iter().any(is_mapped) && charge.lines.iter().all(|line| is_mapped(line) || is_fee(line))
        };
        let names_none = |charge: &Charge| charge.lines.iter().all(|line| line.product.is_none());
        let mut paid = view.paid.iter().filter(|paid| paid.is(order));
        let is_paid_for = |paid: &Paid<'_>| !paid.products.is_empty() || paid.is_of_the_past();
        let is_over = paid.clone().any(Paid::is_all_gone);
        let is_served = |charge: &Charge| is_all(charge) || (names_none(charge) && paid.any(is_paid_for));
        is_over || self.charges.get(order).is_some_and(is_served)
    }
}

impl Settled<'_> {
    /// Returns the outcome of a report that must wait because a product of the payment still needs a key. Returns
    /// `None` if no product needs a key. While the report waits, the keys of the payment's other products may be
    /// issued.
    fn lacks(&self, view: &View<'_>, paid: &Paid<'_>) -> Option<ReportOutcome> {
        let is_issued = |product: ProductId| {
            self.steps.iter().any(|step| matches!(step, Step::Issue(_, offer, _) if offer.product == product))
        };
        let products = paid.products.iter().copied().filter(|product| !paid.is_gone(*product));
        let lacking: Vec<ProductId> =
            products.filter(|product| !is_issued(*product) && !self.holds(view, paid, *product)).collect();
        if lacking.iter().any(|product| view.is_disputed(paid, *product)) {
            let can_be_won = lacking.iter().any(|product| view.can_be_won(paid, *product));
            return Some(ReportOutcome::Waits(if can_be_won { DISPUTED } else { LOST }));
        }
        (!lacking.is_empty()).then_some(ReportOutcome::Lacks)
    }

    /// Returns whether a payment [pays for](View::of_key) one of the product's keys.
    fn holds(&self, view: &View<'_>, paid: &Paid<'_>, product: ProductId) -> bool {
        view.payers(&self.keys, product).contains(paid.name)
    }
}
