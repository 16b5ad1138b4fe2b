//! A deal: everything that a platform has reported of one sale and its renewals, and what that came to.
//!
//! Platforms report out of order, more than once, and by different references: a sale by its order, a refund by its payment.
//! A deal keeps the facts, for ever. What is to be done follows from the facts, in whatever order they came: after each
//! report, [`settle`](Deal::settle) compares what should hold with what was done. References of one sale lead to one deal;
//! two deals that turn out to be one are [merged](Deal::merge).
//!
//! A deal is pure: it knows neither clock nor store, and names what is to be done to keys as [`Step`]s.

mod charge;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use self::charge::{Charge, Money, Sold};
pub use self::report::{Cause, Charged, End, Extent, Links, MOST_PRODUCTS, Of, Offer, ReferenceKind, Report, Returned};
use crate::key::KeyId;
use crate::product::ProductId;

/// What a platform has reported of one sale, and what that came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deal {
    /// Orders and charges, by the platform's number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    charges: BTreeMap<String, Charge>,
    /// What was reported of payments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    payments: BTreeMap<String, Money>,
    /// The payment of each invoice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    invoices: BTreeMap<String, String>,
    /// The deal that this one turned out to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merged: Option<i64>,
}

/// Something to be done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Step<'r> {
    /// Issue the key of an offer. [`Deal::sold`] is told of the key that came of it.
    Issue(&'r Offer),
    /// Add the uses of the pieces of an offer that are beyond so many.
    Add(KeyId, &'r Offer, u64),
    /// Extend it by the days that were granted.
    Renew(KeyId),
    /// Take as many days back.
    Shorten(KeyId),
    /// Revoke it.
    Revoke(KeyId, Why),
    /// Lift the revocation, if the platform made it for this reason.
    Lift(KeyId, Why),
    /// Take a note that a part of the money went back.
    Note(KeyId),
}

/// Why a key is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Why {
    Refunded,
    Cancelled,
    Disputed,
}

/// What a report came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Told {
    Issued,
    Renewed,
    Revoked,
    Restored,
    PartlyRefunded,
    /// Nothing, and nothing will come of it, for this reason.
    Nothing(&'static str),
    /// Nothing new.
    Known,
    /// It cannot be done yet, for this reason.
    Waits(&'static str),
}

/// A sale that was disputed before it was reported waits for the end of the dispute.
const DISPUTED: &str = "the payment is disputed";

impl Deal {
    /// A deal that turned out to be another.
    pub(in crate::store) fn merged_into(number: i64) -> Self {
        Self { merged: Some(number), ..Self::default() }
    }

    /// The deal that this one turned out to be.
    #[must_use]
    pub fn merged(&self) -> Option<i64> {
        self.merged
    }

    /// The keys that it issued.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.charges.values().flat_map(|charge| charge.sold.iter().map(|sold| sold.key))
    }

    /// Takes over what `other` knows: both are one deal.
    pub(in crate::store) fn merge(&mut self, other: Self) {
        for (id, theirs) in other.charges {
            let ours = self.charges.entry(id).or_default();
            ours.payment = ours.payment.take().or(theirs.payment);
            ours.invoice = ours.invoice.take().or(theirs.invoice);
            ours.money.merge(theirs.money);
            ours.returned.extend(theirs.returned);
            ours.noted.extend(theirs.noted);
            ours.is_renewal |= theirs.is_renewal;
            ours.sold.extend(theirs.sold);
            ours.renewed.extend(theirs.renewed);
            ours.is_taken_back |= theirs.is_taken_back;
            ours.is_suspended |= theirs.is_suspended;
        }
        for (id, theirs) in other.payments {
            self.payments.entry(id).or_default().merge(theirs);
        }
        self.invoices.extend(other.invoices);
    }

    /// Takes note of a report. Returns what it came to and what is to be done, in this order.
    pub(in crate::store) fn report<'r>(&mut self, report: &'r Report) -> (Told, Vec<Step<'r>>) {
        match report {
            Report::Charged(charged) => self.charged(charged),
            Report::Refunded { of, extent, cause } => self.refunded(of, extent, *cause),
            Report::Disputed { of, dispute } => {
                self.money(of).disputed.insert(dispute.clone());
                (Told::Revoked, self.settle())
            }
            Report::Won { of, end } => {
                let money = self.money(of);
                match end {
                    End::Of(dispute) => money.won.insert(dispute.clone()),
                    End::Any(end) => money.ends.insert(end.clone()),
                };
                (Told::Restored, self.settle())
            }
            Report::Linked(links) => {
                if let Some(order) = &links.order {
                    self.link(order.as_str(), links);
                } else {
                    self.link_invoice(links);
                }
                let steps = self.settle();
                let told =
                    if steps.is_empty() { Told::Nothing("it links references of one sale") } else { Told::Revoked };
                (told, steps)
            }
        }
    }

    /// A key was issued, or was there already, for `order`.
    pub(in crate::store) fn sold(&mut self, order: &str, offer: &Offer, key: KeyId) {
        let Offer { product, names, lines, pieces, .. } = offer;
        let (names, lines) = (names.clone(), lines.clone());
        let sold = Sold { key, product: *product, names, lines, pieces: *pieces, is_taken_back: false };
        self.charges.entry(order.to_owned()).or_default().sold.push(sold);
    }

    fn charged<'r>(&mut self, charged: &'r Charged) -> (Told, Vec<Step<'r>>) {
        let order = charged.order.as_str();
        let links = &charged.links;
        self.link(order, links);
        let mut steps = self.settle();
        let Some(charge) = self.charges.get(order) else { return (Told::Known, steps) };
        if self.refund_of(charge).is_some() {
            return (Told::Nothing("the money went back before"), steps);
        }
        // Nothing is issued or renewed while it is disputed, also not what was missing before.
        let is_new = charged.offers.iter().any(|offer| !charge.has(offer));
        if self.is_disputed(charge) && charge.renewed.is_empty() && (charge.sold.is_empty() || is_new) {
            return (Told::Waits(DISPUTED), steps);
        }
        if charged.is_renewal && charge.sold.is_empty() {
            if !charge.renewed.is_empty() {
                return (Told::Known, steps);
            }
            let keys = self.renewed_by(charged);
            if !keys.is_empty() {
                steps.extend(keys.iter().map(|key| Step::Renew(*key)));
                let charge = self.charges.entry(order.to_owned()).or_default();
                (charge.renewed, charge.is_renewal) = (keys, true);
                return (Told::Renewed, steps);
            }
        }
        self.charges.entry(order.to_owned()).or_default().is_renewal = charged.is_renewal;
        let before = steps.len();
        let mut is_joined = false;
        for offer in &charged.offers {
            let Some(charge) = self.charges.get_mut(order) else { continue };
            if let Some((key, pieces, was_refunded)) = charge.extend(offer) {
                steps.push(Step::Add(key, offer, pieces));
                // The pieces that were added were paid.
                steps.extend(was_refunded.then_some(Step::Lift(key, Why::Refunded)));
                continue;
            }
            if charge.has(offer) || charge.returned_pieces(&offer.lines, &offer.names) >= offer.pieces {
                continue;
            }
            match self.issued_by_renewal(order, links, offer.product) {
                Some(sold) => {
                    is_joined = true;
                    steps.push(Step::Renew(sold.key));
                    self.charges.entry(order.to_owned()).or_default().sold.push(sold);
                }
                None => steps.push(Step::Issue(offer)),
            }
        }
        let charge = self.charges.get(order);
        let told = if steps.len() > before || is_joined {
            Told::Issued
        } else if !charged.offers.is_empty() && charge.is_some_and(|charge| charge.sold.is_empty()) {
            Told::Nothing("its lines were refunded before")
        } else {
            Told::Known
        };
        (told, steps)
    }

    /// The keys that a further charge renews: those of the products that it names, or all if it names none of them.
    fn renewed_by(&self, charged: &Charged) -> BTreeSet<KeyId> {
        let is_named = |sold: &&Sold| {
            charged.offers.iter().any(|offer| offer.product == sold.product)
                || charged.unmapped.iter().any(|(_, name)| sold.names.contains(name))
        };
        // What a refunded renewal has issued is no key to renew.
        let is_kept = |charge: &&Charge| !(charge.is_renewal && charge.is_taken_back);
        let sold = || self.charges.values().filter(is_kept).flat_map(|charge| &charge.sold);
        let named: BTreeSet<KeyId> = sold().filter(is_named).map(|sold| sold.key).collect();
        if named.is_empty() { sold().map(|sold| sold.key).collect() } else { named }
    }

    /// Whether `order` has a key for each of these lines, or has renewed one.
    pub(in crate::store) fn serves(&self, order: &str, lines: &[(String, String)]) -> bool {
        let is_sold = |charge: &Charge| !lines.is_empty() && lines.iter().all(|(line, _)| charge.serves(line));
        self.charges.get(order).is_some_and(|charge| !charge.renewed.is_empty() || is_sold(charge))
    }

    /// The key that a renewal issued, because the sale of its subscription was not known. The sale has it from now on, and the
    /// renewal counts as one. What was refunded meanwhile is no key to join.
    fn issued_by_renewal(&mut self, order: &str, links: &Links, product: ProductId) -> Option<Sold> {
        links.subscription.as_ref()?;
        for (id, charge) in &mut self.charges {
            if id != order
                && charge.is_renewal
                && !charge.is_taken_back
                && let Some(index) = charge.sold.iter().position(|sold| sold.product == product)
            {
                let sold = charge.sold.remove(index);
                charge.renewed.insert(sold.key);
                return Some(sold);
            }
        }
        None
    }

    fn refunded<'r>(&mut self, of: &Of, extent: &Extent, cause: Cause) -> (Told, Vec<Step<'r>>) {
        match (extent, of) {
            (Extent::Full, _) => {
                self.money(of).refunded.get_or_insert(cause);
                (Told::Revoked, self.settle())
            }
            (Extent::Lines { refund, lines }, Of::Order(order)) => {
                let charge = self.charges.entry(order.as_str().to_owned()).or_default();
                if charge.returned.contains_key(refund) {
                    return (Told::Known, self.settle());
                }
                charge.returned.insert(refund.clone(), lines.clone());
                // Of an order that is not known yet, nobody can tell how many pieces are left.
                let is_known = !charge.sold.is_empty();
                let steps = self.settle();
                if is_known && steps.is_empty() { self.partly_refunded(of, refund) } else { (Told::Revoked, steps) }
            }
            (Extent::Partial { refund } | Extent::Lines { refund, .. }, _) => self.partly_refunded(of, refund),
        }
    }

    fn partly_refunded<'r>(&mut self, of: &Of, refund: &str) -> (Told, Vec<Step<'r>>) {
        let is_new = self.money(of).partial.insert(refund.to_owned());
        (if is_new { Told::PartlyRefunded } else { Told::Known }, self.settle())
    }

    /// A key that a renewal issued belongs to another renewal of it, once the first is refunded: the other was paid.
    fn hand_over(&mut self) {
        let is_refunded = |charge: &Charge| self.refund_of(charge).is_some();
        let is_heir =
            |charge: &Charge, key| charge.renewed.contains(&key) && !charge.is_taken_back && !is_refunded(charge);
        let mut heirs = Vec::new();
        for (id, charge) in &self.charges {
            if charge.is_renewal && !charge.is_taken_back && is_refunded(charge) {
                for sold in &charge.sold {
                    let heir = self.charges.iter().find(|(_, other)| is_heir(other, sold.key));
                    heirs.extend(heir.map(|(heir, _)| (id.clone(), heir.clone(), sold.key)));
                }
            }
        }
        for (from, to, key) in heirs {
            let Some(charge) = self.charges.get_mut(&from) else { continue };
            let Some(index) = charge.sold.iter().position(|sold| sold.key == key) else { continue };
            let sold = charge.sold.remove(index);
            charge.renewed.insert(key);
            if let Some(heir) = self.charges.get_mut(&to) {
                heir.renewed.remove(&key);
                heir.sold.push(sold);
            }
        }
    }

    /// Compares what should hold with what was done, and returns what is left to do.
    pub(in crate::store) fn settle<'r>(&mut self) -> Vec<Step<'r>> {
        self.hand_over();
        let facts = |charge: &Charge| (self.refund_of(charge), self.is_disputed(charge), self.partial_of(charge));
        let facts: Vec<_> = self.charges.values().map(facts).collect();
        let (mut steps, mut lifted) = (Vec::new(), BTreeSet::new());
        for (charge, (refund, is_disputed, partial)) in self.charges.values_mut().zip(facts) {
            charge.take_back(refund, &mut steps);
            charge.note(partial, &mut steps);
            let has_keys = !charge.sold.is_empty() || !charge.renewed.is_empty();
            if is_disputed && !charge.is_suspended && has_keys {
                charge.is_suspended = true;
                steps.extend(charge.keys().map(|key| Step::Revoke(key, Why::Disputed)));
            } else if !is_disputed && charge.is_suspended {
                charge.is_suspended = false;
                lifted.extend(charge.keys());
            }
        }
        let suspended = self.charges.values().filter(|charge| charge.is_suspended);
        let suspended: BTreeSet<KeyId> = suspended.flat_map(Charge::keys).collect();
        steps.extend(lifted.difference(&suspended).map(|key| Step::Lift(*key, Why::Disputed)));
        steps
    }

    fn money(&mut self, of: &Of) -> &mut Money {
        match of {
            Of::Order(id) => &mut self.charges.entry(id.as_str().to_owned()).or_default().money,
            Of::Payment(id) => self.payments.entry(id.as_str().to_owned()).or_default(),
        }
    }

    fn link(&mut self, order: &str, links: &Links) {
        self.link_invoice(links);
        let charge = self.charges.entry(order.to_owned()).or_default();
        let text = |id: &Option<crate::order::OrderId>| id.as_ref().map(|id| id.as_str().to_owned());
        charge.payment = charge.payment.take().or_else(|| text(&links.payment));
        charge.invoice = charge.invoice.take().or_else(|| text(&links.invoice));
    }

    fn link_invoice(&mut self, links: &Links) {
        if let (Some(invoice), Some(payment)) = (&links.invoice, &links.payment) {
            self.invoices.entry(invoice.as_str().to_owned()).or_insert_with(|| payment.as_str().to_owned());
        }
    }

    fn payment_of<'a>(&'a self, charge: &'a Charge) -> Option<&'a String> {
        charge.payment.as_ref().or_else(|| self.invoices.get(charge.invoice.as_ref()?))
    }

    fn payment(&self, charge: &Charge) -> Option<&Money> {
        self.payments.get(self.payment_of(charge)?)
    }

    fn refund_of(&self, charge: &Charge) -> Option<Cause> {
        charge.money.refunded.or_else(|| self.payment(charge)?.refunded)
    }

    /// Refunds of a part of its money.
    fn partial_of(&self, charge: &Charge) -> BTreeSet<String> {
        let of_payment = self.payment(charge).into_iter().flat_map(|money| &money.partial);
        charge.money.partial.iter().chain(of_payment).cloned().collect()
    }

    fn is_disputed(&self, charge: &Charge) -> bool {
        charge.money.is_disputed() || self.payment(charge).is_some_and(Money::is_disputed)
    }
}
