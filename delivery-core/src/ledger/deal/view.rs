//! The payments of a deal: which products and which subscription each is for, and [until](until) when it pays. The
//! result depends only on the facts of the deal, not on the order in which they were reported.

mod until;

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

pub(super) use self::until::{PaidUntil, last};
use super::facts::Said;
use super::paid::Paid;
use super::term::{Term, later};
use super::{Deal, Recurrence};
use crate::product::ProductId;

/// A statement about a subscription applies to a charge if the statement was made at most this long after the charge.
/// Platforms send charges and statements separately, with times from different clocks.
const SAYS_WHAT: TimeDelta = TimeDelta::hours(1);

/// The payments of a deal, computed from its facts.
#[derive(Debug)]
pub(super) struct View<'d> {
    deal: &'d Deal,
    /// The payments, in the order in which they were paid.
    pub(super) paid: Vec<Paid<'d>>,
    grace: TimeDelta,
}

impl<'d> View<'d> {
    pub(super) fn of(deal: &'d Deal, grace: TimeDelta) -> Self {
        let mut parts = BTreeMap::<&str, Paid<'d>>::new();
        let firsts = deal.firsts();
        for (name, charge) in &deal.charges {
            let money = deal.money_of(charge);
            let captured = money.captured;
            if charge.is_open && captured.is_none() {
                continue;
            }
            let at = charge.at.or(captured.filter(|_| charge.is_open));
            let root = deal.root(name, charge, &firsts);
            let paid = parts.entry(root).or_insert(Paid {
                name: root,
                at: None,
                subscription: None,
                parts: Vec::new(),
                products: BTreeSet::new(),
                only: None,
            });
            // The payment has the time of the charge that it is named after. If that time is unknown, it has the time
            // of another of its charges.
            paid.at = if name == root { at.or(paid.at) } else { paid.at.or(at) };
            paid.parts.push((name, charge, money));
        }
        let mut view = Self { deal, paid: Vec::new(), grace };
        let mut all: Vec<Paid<'d>> = parts.into_values().collect();
        all.sort_by_key(|paid| (paid.at, paid.name));
        for mut paid in all.into_iter().flat_map(|paid| view.by_subscription(paid)).collect::<Vec<_>>() {
            paid.products = view.products(&paid);
            view.paid.push(paid);
        }
        view
    }

    /// Splits the payment of an order that began several subscriptions. The result is one payment for each
    /// subscription, and one payment for the products that belong to no subscription. A subscription's payment is for
    /// those products of the order that the subscription's statements name, or that the subscription charged again. A
    /// payment for at most one subscription is returned unsplit.
    fn by_subscription(&self, paid: Paid<'d>) -> Vec<Paid<'d>> {
        let names = paid.parts.iter().flat_map(|(_, charge, _)| &charge.subscriptions).map(String::as_str);
        let mut names: BTreeSet<&'d str> = names.collect();
        if names.len() < 2 {
            return vec![Paid { subscription: names.pop_first(), ..paid }];
        }
        let sold: BTreeSet<ProductId> = paid.lines().filter_map(|line| line.product).collect();
        let (mut rest, mut split) = (sold.clone(), Vec::new());
        for name in names {
            let again = |product: ProductId| {
                let mut charges = self.deal.charges.values().filter(|charge| charge.subscriptions.iter().eq([name]));
                charges.any(|charge| charge.lines.iter().any(|line| line.product == Some(product)))
            };
            let is_its = |product: &ProductId| self.is_named(Some(name), *product) == Some(true) || again(*product);
            let only: BTreeSet<ProductId> = sold.iter().copied().filter(is_its).collect();
            rest.retain(|product| !only.contains(product));
            split.push(Paid { subscription: Some(name), only: Some(only), ..paid.clone() });
        }
        split.push(Paid { subscription: None, only: Some(rest), ..paid });
        split
    }

    /// Returns the products that a payment is for. A payment that names no product may be for the products of an
    /// earlier payment, so `self.paid` must already contain all earlier payments.
    fn products(&self, paid: &Paid<'d>) -> BTreeSet<ProductId> {
        if let Some(only) = &paid.only {
            return only.clone();
        }
        let of_now = paid.lines().filter(|line| !paid.is_past(line));
        let named: BTreeSet<ProductId> = of_now.filter_map(|line| line.product).collect();
        let mut lines = paid.lines().peekable();
        let is_empty = lines.peek().is_none();
        let is_named = paid.lines().any(|line| line.product.is_some()) || paid.is_of_the_past();
        if is_named || paid.subscription.is_none() || (!is_empty && lines.all(|line| line.term == Term::Once)) {
            return named;
        }
        let stated = if is_empty { self.stated_products(paid) } else { BTreeSet::new() };
        if !stated.is_empty() {
            return stated;
        }
        let before = self.paid.iter().rev().filter(|before| before.is_of(paid.subscription));
        before.map(|before| self.again(before)).find(|again| !again.is_empty()).unwrap_or_default()
    }

    /// Returns those products of a payment that its subscription charges again. Products that were sold together with
    /// them, but only once, are left out.
    fn again(&self, paid: &Paid<'d>) -> BTreeSet<ProductId> {
        if paid.names_none() {
            return paid.products.clone();
        }
        let is_again = |product: &ProductId| paid.term(*product) != Term::Once;
        let again: BTreeSet<ProductId> = paid.products.iter().copied().filter(is_again).collect();
        let is_beside =
            |product| paid.term(product) == Term::Unsaid && self.is_named(paid.subscription, product) == Some(false);
        let named: BTreeSet<ProductId> = again.iter().copied().filter(|product| !is_beside(*product)).collect();
        // Statements may name none of the products. All products in `again` then count as charged again, unless the
        // payment has a line that is mapped to no product: that line may be what is charged again.
        let is_all = paid.lines().all(|line| line.product.is_some());
        if named.is_empty() && is_all { again } else { named }
    }

    /// Returns the products that the newest statement about a payment's subscription names. Statements without lines do
    /// not count, nor do statements that were made more than `SAYS_WHAT` after the payment.
    fn stated_products(&self, paid: &Paid<'d>) -> BTreeSet<ProductId> {
        let Some(at) = paid.at else { return BTreeSet::new() };
        let words =
            self.words(paid.subscription).filter(|said| !said.lines.is_empty() && said.at <= later(at, SAYS_WHAT));
        let newest = words.max_by_key(|said| said.at);
        newest.into_iter().flat_map(|said| self.named(said)).collect()
    }

    fn words(&self, subscription: Option<&'d str>) -> impl Iterator<Item = &'d Said> {
        let of = move |said: &&Said| subscription.is_some_and(|subscription| said.subscription == subscription);
        self.deal.words.iter().filter(of)
    }

    /// Returns the products that a statement names. A line that is mapped to no product counts as naming the product of
    /// a sold line with the same most specific name.
    fn named(&self, said: &'d Said) -> impl Iterator<Item = ProductId> {
        said.lines.iter().filter_map(|line| line.product.or_else(|| self.deal.sold_as(line.names.first()?)))
    }

    /// Returns whether the statements about a subscription name a product; `None` if no statement has any lines.
    fn is_named(&self, subscription: Option<&'d str>, product: ProductId) -> Option<bool> {
        let mut naming = self.words(subscription).filter(|said| !said.lines.is_empty()).peekable();
        let is_any = naming.peek().is_some();
        is_any.then(|| naming.any(|said| self.named(said).any(|named| named == product)))
    }

    /// Returns whether a payment's subscription renews a product: the payment is for the product, and the subscription
    /// charges for the product again.
    pub(super) fn is_subscribed(&self, paid: &Paid<'d>, product: ProductId) -> bool {
        if paid.subscription.is_none() || !paid.products.contains(&product) {
            return false;
        }
        match paid.term(product) {
            Term::Once => return false,
            Term::Unsaid => {}
            Term::Until(_) | Term::Period { .. } | Term::Every(_) => return true,
        }
        if let Some(is_named) = self.is_named(paid.subscription, product) {
            // A charge that names no product is for what the subscription renews. The products of such a charge are
            // therefore renewed, even if no statement names them.
            let mut bare = self.paid.iter().filter(|other| other.is_of(paid.subscription) && other.names_none());
            return is_named || bare.any(|other| other.products.contains(&product));
        }
        // If only a calendar period is known and the payment is for several products, the subscription renews only
        // those products for which another payment of the subscription is known.
        let others = || self.paid.iter().filter(|other| other.name != paid.name && other.is_of(paid.subscription));
        self.recurrence(paid).is_none()
            || paid.products.len() == 1
            || others().any(|other| other.products.contains(&product))
    }

    /// Returns the payments by which a subscription charged for a product.
    fn charges(&self, subscription: Option<&'d str>, product: ProductId) -> Vec<&Paid<'d>> {
        self.paid.iter().filter(|paid| paid.is_of(subscription) && self.is_subscribed(paid, product)).collect()
    }

    /// Returns the payments that pay for a key of `order`. These are the payment of the order itself and, if the
    /// order's subscription renews the product, the other payments of that subscription for the product. Payments
    /// whose money went back are included.
    pub(super) fn of_key(&self, order: &str, product: ProductId) -> Vec<&Paid<'d>> {
        let is_about = |paid: &&Paid<'d>| paid.only.as_ref().is_none_or(|only| only.contains(&product));
        let sold: Vec<&Paid<'d>> = self.paid.iter().filter(|paid| paid.is(order)).filter(is_about).collect();
        let is_once = |sold: &Paid<'d>| sold.products.contains(&product) && !self.is_subscribed(sold, product);
        let is_same = |sold: &Paid<'d>, paid: &Paid<'d>| {
            let is_of = !is_once(sold) && paid.is_of(sold.subscription);
            paid.name == sold.name || (is_of && self.is_subscribed(paid, product))
        };
        let is_its = |paid: &&Paid<'d>| paid.products.contains(&product) && sold.iter().any(|sold| is_same(sold, paid));
        self.paid.iter().filter(is_its).collect()
    }

    /// Returns the length of the calendar period that a payment is for. It is the first of these that exists:
    ///
    /// - the recurrence of the first line that has one
    /// - the recurrence in the newest statement made at most [`SAYS_WHAT`] after the payment
    /// - the recurrence in the oldest statement
    ///
    /// Statements without a recurrence, and statements about other subscriptions, are ignored.
    fn recurrence(&self, paid: &Paid<'d>) -> Option<Recurrence> {
        let of = |term| if let Term::Every(recurrence) = term { Some(recurrence) } else { None };
        let told = || self.words(paid.subscription).filter_map(|said| Some((said.at, of(said.term)?)));
        let by = paid.at.map(|at| later(at, SAYS_WHAT));
        let newest = || told().filter(|(at, _)| Some(*at) <= by).max_by_key(|(at, _)| *at);
        let told = || newest().or_else(|| told().min_by_key(|(at, _)| *at)).map(|(_, recurrence)| recurrence);
        paid.lines().find_map(|line| of(line.term)).or_else(told)
    }
}
