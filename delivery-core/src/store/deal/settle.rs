//! Takes note of a report, and compares what should hold with what was done.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::facts::Said;
use super::paid::Paid;
use super::step::{LINKS, Outcome, Step};
use super::view::View;
use super::{
    Bought, Charge, ChargeRef, Charged, Deal, Dispute, Extent, Kept, Links, Offer, Refund, Report, Set, Standing, Term,
};
use crate::key::{Key, KeyId};
use crate::order::OrderId;
use crate::product::ProductId;

/// A sale that was disputed before it was reported waits for the end of the dispute.
const DISPUTED: &str = "the payment is disputed";
const NO_CHANGE: &str = "it changes no key";
const UNKNOWN: &str = "no sale of this payment is known here";

impl Deal {
    /// Takes note of a report. `expiry` tells when a key expires now, and `grace` how long a subscription's key lives beyond what is
    /// paid. Returns the outcome of the report, and what is to be done, in this order.
    pub(in crate::store) fn report<'r>(
        &mut self,
        report: &'r Report,
        expiry: &dyn Fn(KeyId) -> Option<DateTime<Utc>>,
        grace: TimeDelta,
    ) -> (Outcome, Vec<Step<'r>>) {
        self.look_at_keys(expiry, grace);
        match report {
            Report::Charged(charged) => self.charged(report, charged, grace),
            Report::Captured(captured) => {
                let money = self.payments.entry(captured.payment.as_str().to_owned()).or_default();
                money.captured = money.captured.max(Some(captured.at));
                let nothing = Outcome::Nothing("no authorised sale of this payment is known here");
                let (came, steps) = self.settled(report, grace, nothing);
                let view = View::of(self, grace);
                let mut taken = view.paid.iter().filter(|paid| paid.is_taken_by(captured.payment.as_str()));
                let lacks = taken.find_map(|paid| self.lacks(&view, paid, &steps));
                (lacks.unwrap_or(came), steps)
            }
            Report::Told(word) => {
                self.link(&word.links);
                if let Some(subscription) = &word.links.subscription {
                    let order = word.links.order.as_ref().map(|order| order.as_str().to_owned());
                    let (standing, term, lines) = (word.standing, word.term, word.lines.clone());
                    let subscription = subscription.as_str().to_owned();
                    self.words.insert(Said { at: word.at, subscription, order, lines, standing, term });
                }
                let is_link = (word.standing, word.term) == (Standing::Unsaid, Term::Unsaid);
                let (came, steps) = self.settled(report, grace, Outcome::Nothing(NO_CHANGE));
                let came = if is_link { came.of_link() } else { came };
                (self.waits(report, &steps, grace).unwrap_or(came), steps)
            }
            Report::Refunded(refund) => self.refunded(report, refund, grace),
            Report::Kept { of, at } => {
                let money = self.money(of);
                money.kept = money.kept.max(Some(*at));
                let is_back = money.refunded.is_some() && money.refunded <= money.kept;
                let came = if is_back { Outcome::Restored } else { Outcome::Nothing("the money stays") };
                (came, self.settle(report, grace))
            }
            Report::Disputed(Dispute { of, number, extent, .. }) => {
                let lines = match extent {
                    Extent::Full => &[][..],
                    Extent::Lines { lines, .. } => lines,
                    Extent::Partial { refund } => return self.partly_refunded(report, of, refund, grace),
                };
                let disputed = &mut self.money(of).disputed;
                disputed.entry(number.clone().unwrap_or_default()).or_insert_with(|| lines.to_vec());
                (Outcome::Revoked(self.if_unknown()), self.settle(report, grace))
            }
            // A dispute about a part has changed nothing.
            Report::Won(Dispute { extent: Extent::Partial { .. }, .. }) => (Outcome::Nothing(NO_CHANGE), Vec::new()),
            Report::Won(Dispute { of, number, end, .. }) => {
                let money = self.money(of);
                match end {
                    Some(end) => money.ends.insert(end.clone()),
                    None => money.won.insert(number.clone().unwrap_or_default()),
                };
                (Outcome::Restored, self.settle(report, grace))
            }
            Report::Linked(links) => {
                self.link(links);
                let (came, steps) = self.settled(report, grace, LINKS);
                (came.of_link(), steps)
            }
        }
    }

    /// A key was issued, or was there already, for `order`.
    pub(in crate::store) fn sold(&mut self, order: &OrderId, offer: &Offer, key: &Key) {
        let kept = Kept::new(key.id(), offer.product, order.as_str(), offer.pieces);
        let until = Some(key.state().expires_at);
        // One that was there already keeps its date.
        let own = if key.id() == offer.sale.key.id { Some(offer.sale.key.expires_at) } else { until };
        self.keys.push(Kept { until, own, ..kept });
    }

    /// Whether `order` needs nothing that it has not: each of its lines is a product, it pays for products of charges before it, or its
    /// money went back. What else a subscription charges once, such as a fee, may be no product.
    pub(in crate::store) fn serves(&self, order: &str) -> bool {
        let is_mapped = |line: &Bought| line.product.is_some();
        let is_all = |charge: &Charge| {
            let is_fee = |line: &Bought| !charge.subscriptions.is_empty() && line.term == Term::Once;
            charge.lines.iter().any(is_mapped) && charge.lines.iter().all(|line| is_mapped(line) || is_fee(line))
        };
        let names_none = |charge: &Charge| charge.lines.iter().all(|line| line.product.is_none());
        let view = View::of(self, TimeDelta::zero());
        let mut paid = view.paid.iter().filter(|paid| paid.is(order));
        let is_paid_for = |paid: &Paid<'_>| !paid.products.is_empty() || paid.is_of_the_past();
        let is_over = paid.clone().any(|paid| paid.all_taken_back().is_some());
        let is_served = |charge: &Charge| is_all(charge) || (names_none(charge) && paid.any(is_paid_for));
        is_over || self.charges.get(order).is_some_and(is_served)
    }

    /// A date that is not the deal's own was set by the seller, or granted by an earlier version: it overrules what is known until now.
    fn look_at_keys(&mut self, expiry: &dyn Fn(KeyId) -> Option<DateTime<Utc>>, grace: TimeDelta) {
        let view = View::of(self, grace);
        let set = self.keys.iter().enumerate().filter_map(|(index, kept)| {
            let until = expiry(kept.key).filter(|until| Some(*until) != kept.until)?;
            let (is_granted, mut known) = (kept.until.is_none(), BTreeMap::new());
            for (paid, end) in view.ends_of(kept) {
                known.extend(paid.names().filter(|_| !is_granted).map(|part| (part.to_owned(), end.paid)));
            }
            Some((index, Set { until, known, is_granted }))
        });
        for (index, set) in set.collect::<Vec<_>>() {
            if let Some(kept) = self.keys.get_mut(index) {
                (kept.until, kept.set) = (Some(set.until), Some(set));
            }
        }
    }

    fn charged<'r>(&mut self, report: &'r Report, charged: &Charged, grace: TimeDelta) -> (Outcome, Vec<Step<'r>>) {
        let order = charged.order.as_str();
        let was_known = View::of(self, grace).paid.iter().any(|paid| paid.is(order) && paid.is_reported());
        self.charge(order).pay(charged);
        self.link(&Links { order: None, ..charged.links.clone() });
        if let Some(first) = &charged.links.order {
            self.charge(first.as_str()).guess(&charged.links);
        }
        let was_joined = !was_known && View::of(self, grace).paid.iter().any(|paid| paid.is(order) && paid.is_joined());
        let steps = self.settle(report, grace);
        let view = View::of(self, grace);
        let all = || view.paid.iter().filter(|paid| paid.is(order));
        let Some(paid) = all().next() else {
            return (Outcome::Authorised, steps);
        };
        let is_held = |product: &ProductId| self.keys.iter().any(|kept| view.is_by(kept, paid, *product));
        let is_returned = |product: &ProductId| paid.taken_back(*product).is_some();
        let came = if let Some(lacks) = all().find_map(|paid| self.lacks(&view, paid, &steps)) {
            lacks
        } else if steps.iter().any(Step::is_sale) {
            Outcome::Issued
        } else if paid.all_taken_back().is_some() {
            Outcome::Nothing("the money went back before")
        } else if paid.products.is_empty() && paid.is_of_the_past() {
            Outcome::Nothing("it pays for nothing to come")
        } else if !paid.products.is_empty() && paid.products.iter().all(|it| is_returned(it) && !is_held(it)) {
            Outcome::Nothing("its lines were refunded before")
        } else if !paid.products.is_empty()
            && ((!was_known && !was_joined) || steps.iter().any(|step| step.date().is_some()))
        {
            Outcome::Renewed
        } else {
            Outcome::Known
        };
        (came, steps)
    }

    /// Whether a product of a payment still has no key after these steps: it waits, also if others are issued.
    fn lacks<'d>(&self, view: &View<'d>, paid: &Paid<'d>, steps: &[Step<'_>]) -> Option<Outcome> {
        let is_issued = |product: ProductId| {
            steps.iter().any(|step| matches!(step, Step::Issue(_, offer, _) if offer.product == product))
        };
        let is_held = |product| self.keys.iter().any(|kept| view.is_by(kept, paid, product));
        let products = paid.products.iter().copied().filter(|product| paid.taken_back(*product).is_none());
        let lacking: Vec<ProductId> = products.filter(|product| !is_issued(*product) && !is_held(*product)).collect();
        if lacking.iter().any(|product| view.is_disputed(paid, *product)) {
            return Some(Outcome::Waits(DISPUTED));
        }
        (!lacking.is_empty()).then_some(Outcome::Lacks)
    }

    /// Whether a payment for what a word offers is disputed and has no key: the word waits, for it may be the last that offers it.
    fn waits(&self, word: &Report, steps: &[Step<'_>], grace: TimeDelta) -> Option<Outcome> {
        let (offers, order) = word.offers();
        let (view, order) = (View::of(self, grace), order?);
        let paid = offers.iter().flat_map(|offer| view.of_key(order.as_str(), offer.product));
        paid.filter_map(|paid| self.lacks(&view, paid, steps)).find(|lacks| matches!(lacks, Outcome::Waits(_)))
    }

    fn refunded<'r>(&mut self, report: &'r Report, refund: &Refund, grace: TimeDelta) -> (Outcome, Vec<Step<'r>>) {
        let Refund { of, links, extent, cause, at } = refund;
        self.link_to(of, links);
        match (extent, of) {
            (Extent::Full, _) => {
                self.money(of).take_back(*cause, *at);
                let came =
                    if self.is_paid_beside(of) { Outcome::PartlyRefunded } else { Outcome::Revoked(self.if_unknown()) };
                (came, self.settle(report, grace))
            }
            (Extent::Lines { refund, lines }, ChargeRef::Order(order)) => {
                let charge = self.charge(order.as_str());
                let before = charge.returned_products();
                if charge.returned.insert(refund.clone(), lines.clone()).is_some() {
                    return (Outcome::Known, self.settle(report, grace));
                }
                // Of an order that is not known yet, nobody can tell how many pieces are left.
                let may_be_all = !charge.is_paid() && lines.iter().any(|line| line.pieces > 0);
                if may_be_all || charge.returned_products() != before {
                    return (Outcome::Revoked(self.if_unknown()), self.settle(report, grace));
                }
                self.partly_refunded(report, of, refund, grace)
            }
            (Extent::Partial { refund } | Extent::Lines { refund, .. }, _) => {
                self.partly_refunded(report, of, refund, grace)
            }
        }
    }

    /// Whether a refund is of one of several payments for a charge, the others of which stay.
    fn is_paid_beside(&self, of: &ChargeRef) -> bool {
        let ChargeRef::Payment(payment) = of else { return false };
        let is_its = |charge: &&Charge| self.payments_of(charge).contains(payment.as_str());
        self.charges.values().filter(is_its).any(|charge| !self.money_of(charge).is_refunded())
    }

    fn partly_refunded<'r>(
        &mut self,
        report: &'r Report,
        of: &ChargeRef,
        refund: &str,
        grace: TimeDelta,
    ) -> (Outcome, Vec<Step<'r>>) {
        let is_new = self.money(of).partial.insert(refund.to_owned());
        (if is_new { Outcome::PartlyRefunded } else { Outcome::Known }, self.settle(report, grace))
    }

    /// The outcome of a report by the dates and revocations that it changes; `nothing` if it changes none.
    fn settled<'r>(&mut self, report: &'r Report, grace: TimeDelta, nothing: Outcome) -> (Outcome, Vec<Step<'r>>) {
        let before: BTreeMap<KeyId, Option<DateTime<Utc>>> =
            self.keys.iter().map(|kept| (kept.key, kept.until)).collect();
        let steps = self.settle(report, grace);
        let dates = || steps.iter().filter_map(Step::date);
        let came = if steps.iter().any(Step::is_sale) {
            Outcome::Issued
        } else if steps.iter().any(Step::is_revocation) {
            Outcome::Revoked(None)
        } else if dates().any(|(key, until)| before.get(&key).is_some_and(|before| Some(until) > *before)) {
            Outcome::Renewed
        } else if dates().next().is_some() {
            Outcome::Ended
        } else {
            nothing
        };
        (came, steps)
    }

    /// Compares what should hold with what was done, and returns what is left to do. The offers of `report` may be issued.
    pub(in crate::store) fn settle<'r>(&mut self, report: &'r Report, grace: TimeDelta) -> Vec<Step<'r>> {
        let (offers, order) = report.offers();
        let view = View::of(self, grace);
        let mut steps = Vec::new();
        let mut settled: Vec<Kept> = self.keys.clone();
        let mut found = BTreeSet::new();
        for kept in &mut settled {
            self.find_payment(&view, kept, &mut found);
            view.settle(kept, &mut steps);
            let is_more = |offer: &&Offer| {
                let is_its = offer.product == kept.product && order.is_some_and(|order| order.as_str() == kept.order);
                is_its && offer.pieces > kept.pieces && self.pieces(kept) >= offer.pieces
            };
            if let Some(offer) = offers.iter().find(is_more) {
                steps.push(Step::Add(kept.key, offer, kept.pieces));
                kept.pieces = offer.pieces;
            }
        }
        for offer in offers {
            let Some(order) = order else { continue };
            // Payments by which a key of the order would live: any other would lack its key still.
            let missing = view.of_key(order.as_str(), offer.product).into_iter().find(|paid| {
                let is_held = settled.iter().any(|kept| view.is_by(kept, paid, offer.product));
                paid.is_reported()
                    && !is_held
                    && paid.taken_back(offer.product).is_none()
                    && !view.is_disputed(paid, offer.product)
            });
            if let Some(paid) = missing {
                steps.push(Step::Issue(order, offer, view.until(paid, offer.product)));
            }
        }
        let noted = self.notes(&view, &mut steps);
        self.keys = settled;
        for (name, refund) in noted {
            self.charge(&name).noted.insert(refund);
        }
        steps
    }

    /// A key whose order turns out to pay for something else is that of a payment for its product that has none.
    fn find_payment<'d>(&self, view: &View<'d>, kept: &mut Kept, found: &mut BTreeSet<(&'d str, ProductId)>) {
        let product = kept.product;
        if !view.of_key(&kept.order, product).is_empty() {
            return;
        }
        let is_held = |paid: &Paid<'_>| self.keys.iter().any(|other| view.is_by(other, paid, product));
        let pays = |paid: &&Paid<'_>| paid.products.contains(&product) && paid.taken_back(product).is_none();
        let is_new = |paid: &&Paid<'d>| !is_held(paid) && found.insert((paid.name, product));
        if let Some(paid) = view.paid.iter().filter(pays).filter(|paid| paid.is_reported()).find(is_new) {
            paid.name.clone_into(&mut kept.order);
            kept.own = paid.at.zip(paid.own(product)).map_or(kept.own, |(at, own)| Some(own.after(at)));
        }
    }

    /// The pieces of its product that were sold with the order of a key.
    fn pieces(&self, kept: &Kept) -> u64 {
        let lines = self.charges.get(&kept.order).into_iter().flat_map(|charge| &charge.lines);
        lines.filter(|line| line.product == Some(kept.product)).map(|line| line.pieces).sum()
    }

    /// Refunds of a part of the money, each noted once, when there are keys. Returns them with the charge that they are noted with.
    fn notes(&self, view: &View<'_>, steps: &mut Vec<Step<'_>>) -> Vec<(String, String)> {
        let mut noted = Vec::new();
        for (paid, refund) in view.paid.iter().flat_map(|paid| paid.unnoted().into_iter().map(move |it| (paid, it))) {
            let is_its = |kept: &&Kept| paid.products.contains(&kept.product) && view.is_by(kept, paid, kept.product);
            let keys: Vec<KeyId> = self.keys.iter().filter(is_its).map(|kept| kept.key).collect();
            if !keys.is_empty() {
                steps.extend(keys.into_iter().map(Step::Note));
                noted.push((paid.name.to_owned(), refund));
            }
        }
        noted
    }

    /// Why a report about money concerns no key, if it does not.
    fn if_unknown(&self) -> Option<&'static str> {
        let is_any = self.charges.values().any(Charge::is_paid);
        (!is_any).then_some(UNKNOWN)
    }

    /// Takes note of the other references of something.
    fn link_to(&mut self, of: &ChargeRef, links: &Links) {
        match of {
            ChargeRef::Order(order) => self.charge(order.as_str()).link(links),
            ChargeRef::Payment(payment) => self.link(&Links { payment: Some(payment.clone()), ..links.clone() }),
        }
    }
}
