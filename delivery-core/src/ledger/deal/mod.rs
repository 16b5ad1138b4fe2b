//! A deal: everything that a platform has reported about one sale or subscription, and the keys that were issued for
//! it.
//!
//! Platforms report out of order and more than once. They refer to the same sale in different ways: a report of the
//! sale names the order, a report of a refund may name only the payment. A deal keeps the [facts] for ever. The facts,
//! in whatever order they were reported, determine the state that a product's key should have: whether it is issued,
//! [when](view) it expires, and whether it is revoked. Only an expiry that the seller sets has precedence over them.
//! [`report`](Deal::report) records a new report. It then compares the state that each key should have with what was
//! already done to the key. All references of a sale identify the same deal. If two deals turn out to be about the same
//! sale, they are [merged](Deal::merge).
//!
//! A platform reports *charges*, *refunds* and *disputes*, and makes *statements* about subscriptions
//! ([`SubscriptionReport`]). A deal is pure: it uses neither a clock nor a store. It returns [`Step`]s, which the
//! caller carries out on the keys.

mod facts;
mod hold;
mod note;
mod outcome;
mod paid;
mod reference;
mod report;
mod settle;
mod step;
mod term;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use self::facts::{Charge, Money, Said};
pub use self::reference::{ChargeRef, Links, ReferenceKind};
pub use self::report::{
    Bought, Captured, Cause, Charged, Dispute, Extent, MOST_PRODUCTS, Offer, Refund, Report, Returned,
    SubscriptionReport,
};
pub(crate) use self::settle::Reported;
pub(crate) use self::step::{BUYER_ERASED, REFUNDED, ReportOutcome, Step, Why};
pub use self::term::{Own, Recurrence, Standing, Term};
use self::view::View;
use crate::key::KeyId;
use crate::ledger::Amount;
use crate::product::ProductId;

/// Everything that a platform has reported about one sale or subscription, and the keys that were issued for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Deal {
    /// Orders and charges, by the platform's id.
    #[serde(rename = "sales", skip_serializing_if = "BTreeMap::is_empty")]
    charges: BTreeMap<String, Charge>,
    /// Captures, refunds and disputes of each payment, by the platform's id of the payment.
    #[serde(rename = "money", skip_serializing_if = "BTreeMap::is_empty")]
    payments: BTreeMap<String, Money>,
    /// The platform's statements about subscriptions.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    words: BTreeSet<Said>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Kept>,
    /// The payments of each invoice.
    #[serde(rename = "paid_by", skip_serializing_if = "BTreeMap::is_empty")]
    invoices: BTreeMap<String, BTreeSet<String>>,
    /// The number of the deal into which this deal was merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<i64>,
    /// Whether the data of the buyer was erased while an event about the sale could still be applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_erased: bool,
}

/// A key of a deal, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    key: KeyId,
    product: ProductId,
    /// The order that the key was issued for. If that order turned out to pay for something else, this is the order to
    /// which the key was reassigned.
    order: String,
    /// The number of bought pieces that the key's use limit accounts for.
    pieces: u64,
    /// The key's expiry as the deal last recorded it. If the key's actual expiry differs, the seller has changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<DateTime<Utc>>,
    /// The expiry that follows from the product's own validity. If the key was not issued for this deal but existed
    /// already, the expiry that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<DateTime<Utc>>,
    /// Why the key was revoked, if the money of all payments for it went back; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken: Option<Why>,
    /// Whether the key was revoked because a payment for it is disputed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_disputed: bool,
    /// An expiry date that the seller set. It overrides the payments that were known at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<Set>,
}

/// An expiry date that the seller set for a key. A charge extends the date only if the charge was not known when the
/// seller set the date, or if the charge turns out to pay for longer than was known then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Set {
    until: DateTime<Utc>,
    /// The charges that were known when the seller set the date. Each is stored with the end of the time that it pays
    /// for, as known at that time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<String, DateTime<Utc>>,
}

/// The subscription that renews a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Subscription<'d> {
    /// The platform's id of the subscription.
    pub name: &'d str,
    /// Until when the subscription is paid; `None` if this does not follow from a date or a period in a report.
    pub paid_until: Option<DateTime<Utc>>,
}

impl Deal {
    /// Returns a deal that was merged into the deal with this number.
    pub(crate) fn merged_into(number: i64) -> Self {
        Self { merged: Some(number), ..Self::default() }
    }

    /// Returns the number of the deal into which this deal was merged; `None` if it was not merged.
    #[must_use]
    pub fn merged(&self) -> Option<i64> {
        self.merged
    }

    /// Returns the deal with the fact that the data of its buyer was erased. No event about the sale that names the
    /// buyer then waits or is kept to be applied later. A failed refund, which names no buyer, still waits. So do
    /// events that name the present address of a key of the deal.
    #[must_use]
    pub fn with_buyer_erased(self) -> Self {
        Self { is_erased: true, ..self }
    }

    /// Returns whether the data of the buyer was [erased](Self::with_buyer_erased). If it was erased after all events
    /// about the sale were done, only the keys of the deal show this.
    pub(crate) fn is_buyer_erased(&self) -> bool {
        self.is_erased
    }

    /// Returns whether a key for this product was issued for this deal.
    pub(crate) fn has_key_of(&self, product: ProductId) -> bool {
        self.keys.iter().any(|kept| kept.product == product)
    }

    /// Returns the keys that were issued for this deal.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().map(|kept| kept.key)
    }

    /// Returns whether the beginning of the subscription is known: a key was issued for this deal, or the platform has
    /// made a statement about the subscription.
    pub(crate) fn has_begun(&self) -> bool {
        !self.keys.is_empty() || !self.words.is_empty()
    }

    /// Returns the platform's names of everything that belongs to the sale: orders and charges, payments, invoices and
    /// subscriptions.
    pub(crate) fn references(&self) -> BTreeSet<(ReferenceKind, &str)> {
        use ReferenceKind::{Invoice, Order, Payment, Subscription};
        let mut all: BTreeSet<(ReferenceKind, &str)> = BTreeSet::new();
        for (name, charge) in &self.charges {
            all.insert((Order, name));
            all.extend(self.payments_of(charge).into_iter().map(|name| (Payment, name)));
            all.extend(charge.invoice.iter().map(|name| (Invoice, name.as_str())));
            all.extend(charge.subscriptions.iter().map(|name| (Subscription, name.as_str())));
        }
        all.retain(|(_, name)| !name.is_empty());
        all
    }

    /// Returns the subscription that renews the key of `order` for `product`; `None` if no subscription renews it.
    #[must_use]
    pub fn subscription(&self, order: &str, product: ProductId) -> Option<Subscription<'_>> {
        let view = View::of(self, TimeDelta::zero());
        let mut paid = view.of_key(order, product).into_iter().filter(|paid| view.is_subscribed(paid, product));
        let name = paid.find_map(|paid| paid.subscription.filter(|name| !name.is_empty()))?;
        let ends = view.ends(Some(name), product);
        let paid_until = ends.iter().filter(|(_, end)| end.is_named).map(|(_, end)| end.paid).max();
        Some(Subscription { name, paid_until })
    }

    /// Returns the time and the amount of each payment, by the payment's name. Refunds are not subtracted. The result
    /// is empty if the deal has no product.
    ///
    /// - A payment that was reported in two forms, such as an order and its invoice, is returned once. The amount is
    ///   that of the invoice, if it is known.
    /// - A payment without a known time or amount is left out.
    /// - A charge with lines is ignored if none of its lines is mapped to a product.
    #[must_use]
    pub fn received(&self) -> BTreeMap<&str, (DateTime<Utc>, Amount)> {
        let (firsts, has_products) = (self.firsts(), !self.products().is_empty());
        let mut received = BTreeMap::<&str, (DateTime<Utc>, Amount)>::new();
        for (name, charge) in &self.charges {
            let money = self.money_of(charge);
            let is_sold = charge.lines.iter().any(|line| line.product.is_some()) || charge.lines.is_empty();
            let total = money.total.or(charge.total).filter(|total| total.is_valid() && is_sold && has_products);
            let Some((at, total)) = charge.at.or(money.captured).zip(total) else { continue };
            let root = self.root(name, charge, &firsts);
            let (first, known) = received.entry(root).or_insert((at, total));
            *first = at.min(*first);
            if root == name {
                *known = total;
            }
        }
        received
    }

    /// Returns how much was paid for an order or charge, if that is known.
    #[must_use]
    pub fn total(&self, order: &str) -> Option<Amount> {
        let (name, charge) = self.charges.get_key_value(order)?;
        self.received().get(self.root(name, charge, &self.firsts())).map(|(_, total)| *total)
    }

    /// Returns the charges that are marked as the first of a subscription.
    fn firsts(&self) -> Vec<(&String, &Charge)> {
        self.charges.iter().filter(|(_, charge)| charge.is_first).collect()
    }

    /// Returns whether an order belongs to a subscription.
    #[must_use]
    pub fn is_of_subscription(&self, order: &str) -> bool {
        self.charges.get(order).is_some_and(|charge| charge.subscriptions.iter().any(|name| !name.is_empty()))
    }

    /// Returns the order that `payment` is for, if the platform reported the payment as only authorised or
    /// pending.
    #[must_use]
    pub fn authorised(&self, payment: &str) -> Option<&str> {
        let is_its = |charge: &Charge| charge.is_open && charge.payment.as_deref() == Some(payment);
        self.charges.iter().find(|(_, charge)| is_its(charge)).map(|(name, _)| name.as_str())
    }

    /// Returns whether all of an order's money went back, so that no key is issued for the order any more.
    pub(crate) fn is_taken_back(&self, order: &str) -> bool {
        let charge = self.charges.get(order);
        charge.is_some_and(|charge| self.money_of(charge).taken_back(charge.stands_at).is_some())
    }

    /// Returns all products that were sold, and all products that a statement about a subscription names.
    #[must_use]
    pub fn products(&self) -> BTreeSet<ProductId> {
        let said = self.words.iter().flat_map(|said| &said.lines);
        let lines = self.charges.values().flat_map(|charge| &charge.lines).chain(said);
        lines.filter_map(|line| line.product).collect()
    }

    /// Adds the facts and keys of `other`, which turned out to be about the same sale.
    pub(crate) fn merge(&mut self, other: Self) {
        for (name, theirs) in other.charges {
            self.charges.entry(name).or_default().merge(theirs);
        }
        for (name, theirs) in other.payments {
            self.payments.entry(name).or_default().merge(theirs);
        }
        self.words.extend(other.words);
        self.keys.extend(other.keys);
        for (invoice, payments) in other.invoices {
            self.invoices.entry(invoice).or_default().extend(payments);
        }
        self.is_erased |= other.is_erased;
    }

    /// Returns the name of the payment that a charge belongs to. A payment is named after one of its charges, which is
    /// the first of these that exists:
    ///
    /// - the charge's invoice, if the invoice is itself a charge of the deal
    /// - the charge that is marked as the first of the same subscription, if `charge` has no invoice and is not itself
    ///   marked
    /// - the charge itself
    ///
    /// `firsts` are the charges that are marked as the first of a subscription.
    fn root<'d>(&'d self, name: &'d str, charge: &'d Charge, firsts: &[(&'d String, &'d Charge)]) -> &'d str {
        if let Some((invoice, _)) = charge.invoice.as_ref().and_then(|invoice| self.charges.get_key_value(invoice)) {
            return invoice;
        }
        if charge.invoice.is_some() || charge.is_first || charge.subscriptions.is_empty() {
            return name;
        }
        let first = firsts.iter().find(|(_, first)| !first.subscriptions.is_disjoint(&charge.subscriptions));
        first.map_or(name, |(first, _)| first)
    }

    /// Returns the product of a sold line whose most specific name is `name`.
    pub(crate) fn sold_as(&self, name: &str) -> Option<ProductId> {
        let lines = self.charges.values().flat_map(|charge| &charge.lines);
        lines.filter(|line| line.names.first().is_some_and(|first| first == name)).find_map(|line| line.product)
    }

    /// Returns the payments that paid a charge. There are several if each paid a part of an invoice.
    fn payments_of<'d>(&'d self, charge: &'d Charge) -> BTreeSet<&'d str> {
        let of_invoice = charge.invoice.as_ref().and_then(|invoice| self.invoices.get(invoice)).into_iter().flatten();
        charge.payment.iter().chain(of_invoice).map(String::as_str).collect()
    }

    /// Returns the captures, refunds and disputes of a charge. A charge that was paid by several payments counts as
    /// refunded only if all of these payments were refunded.
    fn money_of(&self, charge: &Charge) -> Money {
        let (mut all, names) = (charge.money.clone(), self.payments_of(charge));
        let payments: Vec<&Money> = names.iter().filter_map(|name| self.payments.get(*name)).collect();
        for payment in &payments {
            all.merge((*payment).clone());
        }
        if names.len() > 1 {
            let is_back = payments.len() == names.len() && payments.iter().all(|payment| payment.is_refunded());
            (all.kept, all.refunded) = (charge.money.kept, if is_back { all.refunded } else { charge.money.refunded });
        }
        all
    }

    fn money(&mut self, of: &ChargeRef) -> &mut Money {
        match of {
            ChargeRef::Order(name) => &mut self.charge(name.as_str()).money,
            ChargeRef::Payment(name) => self.payments.entry(name.as_str().to_owned()).or_default(),
        }
    }

    fn charge(&mut self, name: &str) -> &mut Charge {
        self.charges.entry(name.to_owned()).or_default()
    }

    /// Records which references belong to the order in `links`, and which payment paid the invoice in `links`. If
    /// `links` names an order and a subscription, that order began the subscription. A guess that another order began
    /// it is then dropped.
    fn link(&mut self, links: &Links) {
        if let Some(order) = &links.order {
            if let Some(subscription) = &links.subscription {
                for charge in self.charges.values_mut() {
                    charge.unguess(subscription.as_str());
                }
            }
            self.charge(order.as_str()).link(links);
        }
        if let (Some(invoice), Some(payment)) = (&links.invoice, &links.payment) {
            self.invoices.entry(invoice.as_str().to_owned()).or_default().insert(payment.as_str().to_owned());
        }
    }
}

impl Kept {
    fn new(key: KeyId, product: ProductId, order: &str, pieces: u64) -> Self {
        Self {
            key,
            product,
            order: order.to_owned(),
            pieces,
            until: None,
            own: None,
            taken: None,
            is_disputed: false,
            set: None,
        }
    }
}
