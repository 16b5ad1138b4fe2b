//! Compares the state that keys should have with what was already done to them, and returns the missing steps.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::paid::Paid;
use super::step::{ReportOutcome, Step};
use super::view::View;
use super::{Deal, Kept, Offer, Report, Set};
use crate::key::{Key, KeyId};
use crate::order::OrderId;
use crate::product::ProductId;

/// The result of a report.
pub(crate) struct Reported<'r> {
    /// The report's outcome.
    pub(crate) came: ReportOutcome,
    /// Whether a charge or capture must wait for the seller. This is so if a product has no key and the report offers
    /// no key for it, or if the seller must still map lines of the charged order to products.
    pub(crate) is_incomplete: bool,
    /// The steps to carry out, in this order.
    pub(crate) steps: Vec<Step<'r>>,
}

/// The steps that bring a deal's keys into the state that they should have, and the keys after these steps.
pub(super) struct Settled<'r> {
    pub(super) steps: Vec<Step<'r>>,
    pub(super) keys: Vec<Kept>,
    /// The partial refunds that the steps note in the audit log. Each entry is the name of a charge, and the text that
    /// distinguishes the refund from others.
    refunds: Vec<(String, String)>,
}

impl Deal {
    /// Records a report, and returns the steps that follow. `expiry` returns the current expiry of a key. `grace` is
    /// how long a subscription's key stays valid after the time that is paid for.
    pub(crate) fn report<'r>(
        &mut self,
        report: &'r Report,
        expiry: &dyn Fn(KeyId) -> Option<DateTime<Utc>>,
        grace: TimeDelta,
    ) -> Reported<'r> {
        let view = View::of(self, grace);
        let (set, order) = (self.dates_set(&view, expiry), report.offers().1);
        let was_paid =
            view.paid.iter().any(|paid| order.is_some_and(|order| paid.is(order.as_str())) && paid.is_reported());
        for (index, set) in set {
            if let Some(kept) = self.keys.get_mut(index) {
                (kept.until, kept.set) = (Some(set.until), Some(set));
            }
        }
        let noted = self.note(report);
        let view = View::of(self, grace);
        let settled = self.settled(&view, report);
        let came = self.outcome((&view, &settled), report, noted, was_paid);
        let is_incomplete = self.is_incomplete(&view, report, came);
        Reported { came, is_incomplete, steps: self.take(settled) }
    }

    /// Returns further steps that became necessary when the earlier steps of a report were carried out. These may also
    /// issue keys that the report offers.
    pub(crate) fn settle<'r>(&mut self, report: &'r Report, grace: TimeDelta) -> Vec<Step<'r>> {
        let settled = self.settled(&View::of(self, grace), report);
        self.take(settled)
    }

    fn take<'r>(&mut self, settled: Settled<'r>) -> Vec<Step<'r>> {
        self.keys = settled.keys;
        for (name, refund) in settled.refunds {
            self.charge(&name).noted.insert(refund);
        }
        settled.steps
    }

    /// Records that `key` is the key of `order` for the offered product. The key was issued now or existed already.
    pub(crate) fn sold(&mut self, order: &OrderId, offer: &Offer, key: &Key) {
        let kept = Kept::new(key.id(), offer.product, order.as_str(), offer.pieces);
        let until = Some(key.state().expires_at);
        // A key that existed already keeps its expiry. This expiry takes the place of the product's own validity.
        let own = if key.id() == offer.sale.key.id { Some(offer.sale.key.expires_at) } else { until };
        self.keys.push(Kept { until, own, ..kept });
    }

    /// Returns the expiry dates that the seller has set, each with the index of its key. If a key's expiry differs from
    /// the expiry that the deal recorded, the seller has set it. It overrides the payments that are known so far.
    fn dates_set(&self, view: &View<'_>, expiry: &dyn Fn(KeyId) -> Option<DateTime<Utc>>) -> Vec<(usize, Set)> {
        let set = self.keys.iter().enumerate().filter_map(|(index, kept)| {
            let until = expiry(kept.key).filter(|until| Some(*until) != kept.until)?;
            let mut known = BTreeMap::new();
            for (paid, end) in view.ends_of(kept) {
                known.extend(paid.names().map(|part| (part.to_owned(), end.paid)));
            }
            Some((index, Set { until, known }))
        });
        set.collect()
    }

    /// Returns the steps that give the keys the state that they should have, and the keys as they are afterwards.
    fn settled<'r>(&self, view: &View<'_>, report: &'r Report) -> Settled<'r> {
        let (offers, order) = report.offers();
        let mut steps = Vec::new();
        let mut settled: Vec<Kept> = self.keys.clone();
        let mut found = BTreeSet::new();
        for kept in &mut settled {
            self.find_payment(view, kept, &mut found);
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
            // Issue a key if one of the payments pays for no key yet. Consider only the payments that `View::of_key`
            // returns for this order, because no other payment would pay for a key of this order.
            let payers = view.payers(&settled, offer.product);
            let missing = view.of_key(order.as_str(), offer.product).into_iter().find(|paid| {
                paid.is_reported()
                    && !payers.contains(paid.name)
                    && paid.taken_back(offer.product).is_none()
                    && !view.is_disputed(paid, offer.product)
            });
            if let Some(paid) = missing {
                steps.push(Step::Issue(order, offer, view.until(paid, offer.product)));
            }
        }
        let refunds = self.notes(view, &mut steps);
        Settled { steps, keys: settled, refunds }
    }

    /// If a key's order turned out to pay for something else, reassigns the key to a payment that has no key yet and is
    /// for the same product. `found` contains the payments to which other keys were already reassigned.
    fn find_payment<'d>(&self, view: &View<'d>, kept: &mut Kept, found: &mut BTreeSet<(&'d str, ProductId)>) {
        let product = kept.product;
        if !view.of_key(&kept.order, product).is_empty() {
            return;
        }
        let payers = view.payers(&self.keys, product);
        let pays = |paid: &&Paid<'_>| paid.products.contains(&product) && paid.taken_back(product).is_none();
        let is_new = |paid: &&Paid<'d>| !payers.contains(paid.name) && found.insert((paid.name, product));
        if let Some(paid) = view.paid.iter().filter(pays).filter(|paid| paid.is_reported()).find(is_new) {
            paid.name.clone_into(&mut kept.order);
            kept.own = paid.at.zip(paid.own(product)).map_or(kept.own, |(at, own)| Some(own.after(at)));
        }
    }

    /// Returns how many pieces of a key's product were sold with its order.
    fn pieces(&self, kept: &Kept) -> u64 {
        let lines = self.charges.get(&kept.order).into_iter().flat_map(|charge| &charge.lines);
        lines.filter(|line| line.product == Some(kept.product)).map(|line| line.pieces).sum()
    }

    /// Adds the steps that note partial refunds in the audit log of the keys concerned. Each refund is noted only once.
    /// Returns these refunds, each preceded by the name of its charge.
    fn notes(&self, view: &View<'_>, steps: &mut Vec<Step<'_>>) -> Vec<(String, String)> {
        let mut noted = Vec::new();
        for (paid, refund) in view.paid.iter().flat_map(|paid| paid.unnoted().into_iter().map(move |it| (paid, it))) {
            let is_its = |kept: &&Kept| {
                paid.products.contains(&kept.product) && view.payers([*kept], kept.product).contains(paid.name)
            };
            let keys: Vec<KeyId> = self.keys.iter().filter(is_its).map(|kept| kept.key).collect();
            if !keys.is_empty() {
                steps.extend(keys.into_iter().map(Step::Note));
                noted.push((paid.name.to_owned(), refund));
            }
        }
        noted
    }
}
