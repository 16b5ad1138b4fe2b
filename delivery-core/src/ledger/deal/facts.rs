//! The facts of a deal: what was paid, what the platform said of subscriptions, and what became of the money.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::term::{Standing, Term};
use super::{Bought, Cause, Charged, Links, Returned};
use crate::product::ProductId;
use crate::terms::NEVER;

/// An order, or a charge of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Charge {
    /// When it was paid; `None` while nothing but what became of its money is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<DateTime<Utc>>,
    /// When the platform said last that it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stands_at: Option<DateTime<Utc>>,
    /// Whether it is authorised only, and paid once its payment is captured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invoice: Option<String>,
    /// The subscriptions that it charges, several if it began them; empty names if an earlier version did not keep them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) subscriptions: BTreeSet<String>,
    /// Whether nothing names the subscription that it began: it is guessed until something does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_guessed: bool,
    /// Whether it is the same payment as the order that began the subscription.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_first: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<Bought>,
    #[serde(skip_serializing_if = "Money::is_untouched")]
    pub(super) money: Money,
    /// Refunds of single lines, by the platform's number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) returned: BTreeMap<String, Vec<Returned>>,
    /// Refunds of a part of the money that were noted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) noted: BTreeSet<String>,
}

/// What became of money.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Money {
    /// When it was taken, if it was authorised before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) captured: Option<DateTime<Utc>>,
    /// When all of it was refunded last; [`NEVER`] for what the platform does not take back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refunded: Option<DateTime<Utc>>,
    /// When a refund failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<DateTime<Utc>>,
    /// When the order was cancelled last; [`NEVER`] for what the platform does not take back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancelled: Option<DateTime<Utc>>,
    /// Refunds of a part of it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) partial: BTreeSet<String>,
    /// Disputes, each with the lines that it is about; none for all of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) disputed: BTreeMap<String, Vec<Returned>>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) won: BTreeSet<String>,
    /// Ends of disputes that do not say of which.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) ends: BTreeSet<String>,
}

/// What a platform said of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) at: DateTime<Utc>,
    pub(super) subscription: String,
    /// The order that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<Bought>,
    pub(super) standing: Standing,
    #[serde(default, skip_serializing_if = "Term::is_unsaid")]
    pub(super) term: Term,
}

impl Charge {
    /// Whether it was reported as paid.
    pub(super) fn is_paid(&self) -> bool {
        self.at.is_some() || !self.lines.is_empty()
    }

    /// Takes note of a report that it was paid. A line stays the product that it was sold as, however it is mapped later.
    pub(super) fn pay(&mut self, charged: &Charged) {
        if charged.is_open {
            self.is_open |= self.at.is_none();
        } else {
            (self.at, self.is_open) = (Some(self.at.map_or(charged.at, |at| at.min(charged.at))), false);
        }
        self.stands_at = self.stands_at.max(charged.stands_at);
        self.link(&charged.links);
        self.buy(charged.lines.iter().cloned());
    }

    fn buy(&mut self, lines: impl IntoIterator<Item = Bought>) {
        for line in lines {
            match self.lines.iter_mut().find(|known| known.line == line.line) {
                None => self.lines.push(line),
                Some(known) if known.product.is_none() => *known = line,
                // Pieces that were added to an order, and paid too.
                Some(known) if known.pieces < line.pieces => (known.pieces, known.amount) = (line.pieces, line.amount),
                Some(_) => {}
            }
        }
    }

    /// Takes note of its other references.
    pub(super) fn link(&mut self, links: &Links) {
        let name = |id: &Option<crate::order::OrderId>| id.as_ref().map(|id| id.as_str().to_owned());
        self.payment = self.payment.take().or_else(|| name(&links.payment));
        self.invoice = self.invoice.take().or_else(|| name(&links.invoice));
        self.subscriptions.extend(name(&links.subscription));
        self.forget_nameless();
        self.is_first |= links.is_first;
    }

    /// A name is known now.
    fn forget_nameless(&mut self) {
        if self.subscriptions.len() > 1 {
            self.subscriptions.remove("");
        }
    }

    /// Takes it for the order that began a subscription.
    pub(super) fn guess(&mut self, links: &Links) {
        self.is_guessed |= self.subscriptions.iter().all(String::is_empty);
        self.link(&Links { subscription: links.subscription.clone(), ..Links::default() });
    }

    /// The order that began a subscription is known: where it was guessed, it is so no longer.
    pub(super) fn unguess(&mut self, subscription: &str) {
        if self.is_guessed && self.subscriptions.remove(subscription) {
            self.is_guessed = false;
        }
    }

    /// Takes over what is known of it elsewhere.
    pub(super) fn merge(&mut self, other: Self) {
        self.at = match (self.at, other.at) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.is_open = self.at.is_none() && (self.is_open || other.is_open);
        self.stands_at = self.stands_at.max(other.stands_at);
        self.payment = self.payment.take().or(other.payment);
        self.invoice = self.invoice.take().or(other.invoice);
        self.subscriptions.extend(other.subscriptions);
        self.forget_nameless();
        self.is_guessed |= other.is_guessed;
        self.is_first |= other.is_first;
        self.buy(other.lines);
        self.money.merge(other.money);
        self.returned.extend(other.returned);
        self.noted.extend(other.noted);
    }

    /// The products all lines of which were refunded; `None` for lines of a charge that names no product.
    pub(super) fn returned_products(&self) -> BTreeSet<Option<ProductId>> {
        let names_none = self.lines.iter().all(|line| line.product.is_none());
        let products = self.lines.iter().map(|line| line.product).filter(|product| names_none || product.is_some());
        products.filter(|product| self.are_returned(*product, &[])).collect()
    }

    /// Whether every line of a product was refunded.
    pub(super) fn is_returned(&self, product: ProductId) -> bool {
        self.are_returned(self.named_as(product), &[])
    }

    /// Whether disputes that are open give back what refunds left of a product's lines.
    pub(super) fn is_disputed(&self, product: ProductId, open: &[&Returned]) -> bool {
        let product = self.named_as(product);
        let mut lines = self.lines.iter().filter(|line| line.product == product);
        lines.any(|line| open.iter().any(|returned| returned.is_of(line))) && self.are_returned(product, open)
    }

    fn are_returned(&self, product: Option<ProductId>, open: &[&Returned]) -> bool {
        let returned: Vec<&Returned> = self.returned.values().flatten().chain(open.iter().copied()).collect();
        let mut lines = self.lines.iter().filter(|line| line.product == product).peekable();
        lines.peek().is_some() && lines.all(|line| line.is_returned(&returned))
    }

    /// The product of the lines that pay for one: none where the charge names no product.
    fn named_as(&self, product: ProductId) -> Option<ProductId> {
        self.lines.iter().any(|line| line.product.is_some()).then_some(product)
    }
}

impl Returned {
    fn is_of(&self, line: &Bought) -> bool {
        match &self.line {
            Some(number) => *number == line.line,
            None => line.names.contains(&self.name),
        }
    }
}

impl Bought {
    fn is_returned(&self, returned: &[&Returned]) -> bool {
        let (mut pieces, mut amount) = (0_u64, 0_u64);
        for returned in returned.iter().filter(|returned| returned.is_of(self)) {
            pieces = pieces.saturating_add(returned.pieces);
            amount = amount.saturating_add(returned.amount.unwrap_or_default());
        }
        pieces >= self.pieces.max(1) || self.amount.is_some_and(|all| all > 0 && amount >= all)
    }
}

impl Money {
    /// The disputes that are open.
    pub(super) fn open(&self) -> Vec<&Vec<Returned>> {
        let lost = self.disputed.iter().filter(|(dispute, _)| !self.won.contains(*dispute));
        let open: Vec<_> = lost.map(|(_, lines)| lines).collect();
        if open.len() > self.ends.len() { open } else { Vec::new() }
    }

    /// Why it went back, if it did. An order that was cancelled stands again if the platform says so later.
    pub(super) fn taken_back(&self, stands_at: Option<DateTime<Utc>>) -> Option<Cause> {
        let is_last = |at: Option<DateTime<Utc>>, other: Option<DateTime<Utc>>| at.is_some() && at >= other;
        if self.is_refunded() {
            return Some(Cause::Refund);
        }
        is_last(self.cancelled, stands_at).then_some(Cause::Cancellation)
    }

    /// Whether all of it was refunded, and no refund failed since.
    pub(super) fn is_refunded(&self) -> bool {
        self.refunded.is_some() && self.refunded > self.kept
    }

    /// Takes note that all of it went back.
    pub(super) fn take_back(&mut self, cause: Cause, at: Option<DateTime<Utc>>) {
        let taken = match cause {
            Cause::Refund => &mut self.refunded,
            Cause::Cancellation => &mut self.cancelled,
        };
        *taken = (*taken).max(Some(at.unwrap_or(NEVER)));
    }

    pub(super) fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.captured = self.captured.max(other.captured);
        self.refunded = self.refunded.max(other.refunded);
        self.kept = self.kept.max(other.kept);
        self.cancelled = self.cancelled.max(other.cancelled);
        self.partial.extend(other.partial);
        self.disputed.extend(other.disputed);
        self.won.extend(other.won);
        self.ends.extend(other.ends);
    }
}
