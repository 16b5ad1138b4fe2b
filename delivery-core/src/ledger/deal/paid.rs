//! One payment of a deal: what it is for, and what became of its money.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::facts::{Charge, Money};
use super::{Bought, Cause, Own, Returned, Term};
use crate::product::ProductId;
use crate::terms::NEVER;

/// One payment. It has several parts if the platform reports it in several forms, for example as the order that began a
/// subscription and as the first charge of that subscription.
#[derive(Debug, Clone)]
pub(super) struct Paid<'d> {
    pub(super) name: &'d str,
    pub(super) at: Option<DateTime<Utc>>,
    /// The subscription that the payment is for. An order that began several subscriptions is split into one payment
    /// for each of them.
    pub(super) subscription: Option<&'d str>,
    /// The products to which the payment is limited, if it was split because its order began several subscriptions.
    pub(super) only: Option<BTreeSet<ProductId>>,
    pub(super) parts: Vec<(&'d str, &'d Charge, Money)>,
    /// The products that the payment pays for.
    pub(super) products: BTreeSet<ProductId>,
}

impl<'d> Paid<'d> {
    pub(super) fn lines(&self) -> impl Iterator<Item = &'d Bought> {
        self.parts.iter().flat_map(|(_, charge, _)| &charge.lines)
    }

    /// Returns the names of the payment's charges.
    pub(super) fn names(&self) -> impl Iterator<Item = &'d str> {
        self.parts.iter().map(|(name, ..)| *name)
    }

    /// Returns whether the payment has a charge with this name.
    pub(super) fn is(&self, order: &str) -> bool {
        self.names().any(|name| name == order)
    }

    /// Returns whether the payment was reported as only authorised or pending, and has the platform's id `payment`.
    pub(super) fn is_taken_by(&self, payment: &str) -> bool {
        self.parts.iter().any(|(_, charge, _)| charge.is_open && charge.payment.as_deref() == Some(payment))
    }

    /// Returns whether no line of the payment is mapped to a product.
    pub(super) fn names_none(&self) -> bool {
        self.lines().all(|line| line.product.is_none())
    }

    /// Returns whether the payment itself was reported. If not, only its references or facts about its money are known.
    pub(super) fn is_reported(&self) -> bool {
        self.parts.iter().any(|(_, charge, _)| charge.is_paid())
    }

    /// Returns whether the payment was reported in more than one form, such as an order and its invoice.
    pub(super) fn is_joined(&self) -> bool {
        self.parts.iter().filter(|(_, charge, _)| charge.is_paid()).count() > 1
    }

    pub(super) fn is_of(&self, subscription: Option<&str>) -> bool {
        matches!((self.subscription, subscription), (Some(a), Some(b)) if a == b)
    }

    /// Returns whether the payment is for a subscription, and the line is for a time before the payment. Such a line
    /// bills usage, for example, and pays for no time after the payment.
    pub(super) fn is_past(&self, line: &Bought) -> bool {
        self.subscription.is_some() && line.term.end().is_some_and(|end| self.at.is_some_and(|at| end <= at))
    }

    /// Returns whether the payment has lines (what was bought), and all of them are for a time before the payment.
    pub(super) fn is_of_the_past(&self) -> bool {
        let mut lines = self.lines().peekable();
        lines.peek().is_some() && lines.all(|line| self.is_past(line))
    }

    /// Returns the time for which the payment pays for a product. This is the first of these that exists:
    ///
    /// - the term with the latest end in the product's lines
    /// - [`Term::Once`], if a line of the product is charged only once
    /// - the term with the latest end in the lines that are mapped to no product
    pub(super) fn term(&self, product: ProductId) -> Term {
        let named = || self.lines().filter(|line| line.product == Some(product));
        let said = latest(named());
        if said != Term::Unsaid || named().any(|line| line.term == Term::Once) {
            return if said == Term::Unsaid { Term::Once } else { said };
        }
        latest(self.lines().filter(|line| line.product.is_none()))
    }

    /// Returns why the money for a product went back, if it did.
    pub(super) fn taken_back(&self, product: ProductId) -> Option<Cause> {
        let all = self.parts.iter().find_map(|(_, charge, money)| money.taken_back(charge.stands_at));
        let is_returned = || self.parts.iter().any(|(_, charge, _)| charge.is_returned(product));
        all.or_else(|| is_returned().then_some(Cause::Refund))
    }

    /// Returns whether no key is owed for a product any more: its money went back, or a dispute about it was lost.
    pub(super) fn is_gone(&self, product: ProductId) -> bool {
        self.taken_back(product).is_some() || self.has_dispute(product, |is_lost| is_lost)
    }

    /// Returns whether all of the money went back, or a dispute about all of it was lost.
    pub(super) fn is_all_gone(&self) -> bool {
        self.parts.iter().any(|(_, charge, money)| {
            let mut disputes = money.disputes().into_iter();
            money.taken_back(charge.stands_at).is_some() || disputes.any(|(is_lost, lines)| is_lost && lines.is_empty())
        })
    }

    /// Returns whether the money was refunded, the refund may still fail, and no dispute about the money was lost.
    pub(super) fn may_come_back(&self) -> bool {
        let is_lost = self.parts.iter().any(|(.., money)| money.disputes().iter().any(|(is_lost, _)| *is_lost));
        let may_fail = |money: &Money| money.is_refunded() && money.refunded.is_some_and(|at| at < NEVER);
        !is_lost && self.parts.iter().any(|(.., money)| may_fail(money))
    }

    /// Returns the partial refunds and partial disputes that are not yet noted in the audit log.
    pub(super) fn unnoted(&self) -> BTreeSet<String> {
        let partial = self.parts.iter().flat_map(|(.., money)| money.partial.iter().cloned());
        let is_noted = |refund: &String| self.parts.iter().any(|(_, charge, _)| charge.noted.contains(refund));
        partial.filter(|refund| !is_noted(refund)).collect()
    }

    /// Returns whether the money for a product is disputed.
    pub(super) fn is_disputed(&self, product: ProductId) -> bool {
        self.has_dispute(product, |_| true)
    }

    /// Returns whether the money for a product is disputed, and the seller may still win the dispute.
    pub(super) fn can_be_won(&self, product: ProductId) -> bool {
        self.has_dispute(product, |is_lost| !is_lost)
    }

    /// Returns whether the money for a product is disputed. Disputes for which `counts` returns `false` are ignored.
    /// The argument of `counts` is whether the seller lost the dispute.
    fn has_dispute(&self, product: ProductId, counts: fn(bool) -> bool) -> bool {
        self.parts.iter().any(|(_, charge, money)| {
            let disputes = money.disputes().into_iter().filter(|(is_lost, _)| counts(*is_lost));
            let disputes: Vec<&Vec<Returned>> = disputes.map(|(_, lines)| lines).collect();
            let lines: Vec<_> = disputes.iter().flat_map(|lines| lines.iter()).collect();
            disputes.iter().any(|lines| lines.is_empty()) || charge.is_disputed(product, &lines)
        })
    }

    /// Returns how long a key of the product is valid if no report says until when the key is paid. Returns `None` if
    /// the payment's lines do not say this.
    pub(super) fn own(&self, product: ProductId) -> Option<Own> {
        self.lines().filter(|line| line.product == Some(product)).find_map(|line| line.own)
    }
}

/// Returns the term that ends last among the terms of `lines`. Lines that are charged only once are ignored. Returns
/// [`Term::Unsaid`] if no other line names a time.
fn latest<'l>(lines: impl Iterator<Item = &'l Bought>) -> Term {
    let said = lines.map(|line| line.term).filter(|term| !matches!(term, Term::Unsaid | Term::Once));
    said.max_by_key(|term| (term.end(), *term)).unwrap_or_default()
}
