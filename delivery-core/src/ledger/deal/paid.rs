//! One payment of a deal: what it is for, and what became of its money.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::facts::{Charge, Money};
use super::{Bought, Cause, Own, Term};
use crate::product::ProductId;

/// One payment: a charge, together with the order that began its subscription if that is the same payment.
#[derive(Debug, Clone)]
pub(super) struct Paid<'d> {
    pub(super) name: &'d str,
    pub(super) at: Option<DateTime<Utc>>,
    /// The subscription that it charges. An order that began several is a payment for each.
    pub(super) subscription: Option<&'d str>,
    /// The products that it is for alone, if its order began several subscriptions.
    pub(super) only: Option<BTreeSet<ProductId>>,
    pub(super) parts: Vec<(&'d str, &'d Charge, Money)>,
    /// The products that it pays for.
    pub(super) products: BTreeSet<ProductId>,
}

impl<'d> Paid<'d> {
    pub(super) fn lines(&self) -> impl Iterator<Item = &'d Bought> {
        self.parts.iter().flat_map(|(_, charge, _)| &charge.lines)
    }

    /// The names of its charges.
    pub(super) fn names(&self) -> impl Iterator<Item = &'d str> {
        self.parts.iter().map(|(name, ..)| *name)
    }

    /// Whether it has a charge of this name.
    pub(super) fn is(&self, order: &str) -> bool {
        self.names().any(|name| name == order)
    }

    /// Whether it was authorised only, and is taken by this payment.
    pub(super) fn is_taken_by(&self, payment: &str) -> bool {
        self.parts.iter().any(|(_, charge, _)| charge.is_open && charge.payment.as_deref() == Some(payment))
    }

    /// Whether it names no product.
    pub(super) fn names_none(&self) -> bool {
        self.lines().all(|line| line.product.is_none())
    }

    /// Whether it was reported, rather than only what became of its money.
    pub(super) fn is_reported(&self) -> bool {
        self.parts.iter().any(|(_, charge, _)| charge.is_paid())
    }

    /// Whether an order and its invoice were both reported.
    pub(super) fn is_joined(&self) -> bool {
        self.parts.iter().filter(|(_, charge, _)| charge.is_paid()).count() > 1
    }

    pub(super) fn is_of(&self, subscription: Option<&str>) -> bool {
        matches!((self.subscription, subscription), (Some(a), Some(b)) if is_same(a, b))
    }

    /// Whether a line of a subscription is for a time before it was paid, as usage that is billed afterwards: it pays for nothing to come.
    pub(super) fn is_past(&self, line: &Bought) -> bool {
        self.subscription.is_some() && line.term.end().is_some_and(|end| self.at.is_some_and(|at| end <= at))
    }

    /// Whether all of it is for a time before it was paid.
    pub(super) fn is_of_the_past(&self) -> bool {
        let mut lines = self.lines().peekable();
        lines.peek().is_some() && lines.all(|line| self.is_past(line))
    }

    /// What it pays for, of a product: the latest end that its lines name. Lines that are mapped to none speak of all products if those
    /// of the product say nothing.
    pub(super) fn term(&self, product: ProductId) -> Term {
        let named = || self.lines().filter(|line| line.product == Some(product));
        let said = latest(named());
        if said != Term::Unsaid || named().any(|line| line.term == Term::Once) {
            return if said == Term::Unsaid { Term::Once } else { said };
        }
        latest(self.lines().filter(|line| line.product.is_none()))
    }

    /// Why the money for a product went back, if it did.
    pub(super) fn taken_back(&self, product: ProductId) -> Option<Cause> {
        let all = self.parts.iter().find_map(|(_, charge, money)| money.taken_back(charge.stands_at));
        let is_returned = || self.parts.iter().any(|(_, charge, _)| charge.is_returned(product));
        all.or_else(|| is_returned().then_some(Cause::Refund))
    }

    /// Why all of its money went back, if it did.
    pub(super) fn all_taken_back(&self) -> Option<Cause> {
        self.parts.iter().find_map(|(_, charge, money)| money.taken_back(charge.stands_at))
    }

    /// Refunds of a part of its money that were not noted yet.
    pub(super) fn unnoted(&self) -> BTreeSet<String> {
        let partial = self.parts.iter().flat_map(|(.., money)| money.partial.iter().cloned());
        let is_noted = |refund: &String| self.parts.iter().any(|(_, charge, _)| charge.noted.contains(refund));
        partial.filter(|refund| !is_noted(refund)).collect()
    }

    /// Whether the money for a product is disputed.
    pub(super) fn is_disputed(&self, product: ProductId) -> bool {
        self.parts.iter().any(|(_, charge, money)| {
            let open = money.open();
            let lines: Vec<_> = open.iter().flat_map(|lines| lines.iter()).collect();
            open.iter().any(|lines| lines.is_empty()) || charge.is_disputed(product, &lines)
        })
    }

    /// How long a key of the product lives where nothing says until when it is paid.
    pub(super) fn own(&self, product: ProductId) -> Option<Own> {
        self.lines().filter(|line| line.product == Some(product)).find_map(|line| line.own)
    }
}

/// Whether two names are of one subscription. An earlier version did not keep them.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one == other || one.is_empty() || other.is_empty()
}

/// The term with the latest end that lines name.
fn latest<'l>(lines: impl Iterator<Item = &'l Bought>) -> Term {
    let said = lines.map(|line| line.term).filter(|term| !matches!(term, Term::Unsaid | Term::Once));
    said.max_by_key(|term| (term.end(), *term)).unwrap_or_default()
}
