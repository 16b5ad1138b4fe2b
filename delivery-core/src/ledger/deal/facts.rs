//! The facts of a deal: what was paid, what the platform stated about subscriptions, and what became of the money.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::term::{Standing, Term};
use super::{Bought, Cause, Charged, Links, Returned};
use crate::ledger::Amount;
use crate::product::ProductId;
use crate::terms::NEVER;

/// An order, or a charge of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Charge {
    /// When the charge was paid; `None` while no payment was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<DateTime<Utc>>,
    /// When the platform last reported the order as valid. Earlier cancellations do not count any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stands_at: Option<DateTime<Utc>>,
    /// Whether the payment was reported as only authorised or pending. Such a payment does not count until its capture
    /// is reported.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_open: bool,
    /// The amount of the payment, which may be only authorised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invoice: Option<String>,
    /// The subscriptions that the charge pays for. There are several if the order began several.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) subscriptions: BTreeSet<String>,
    /// Whether it is a guess that this order began its subscription. The guess is dropped when a report names the order
    /// that began the subscription.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_guessed: bool,
    /// Whether this charge and the order that began the subscription are the same payment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_first: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<Bought>,
    #[serde(skip_serializing_if = "Money::is_untouched")]
    pub(super) money: Money,
    /// Refunds of single lines, by the platform's id of the refund.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) returned: BTreeMap<String, Vec<Returned>>,
    /// Partial refunds that were already noted in the audit log.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) noted: BTreeSet<String>,
}

/// What became of the money of a charge or payment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Money {
    /// When the payment was captured, if it was at first only authorised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) captured: Option<DateTime<Utc>>,
    /// The amount that was captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<Amount>,
    /// When the money was last refunded in full; [`NEVER`] if the refund is final, so that no later report can undo it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refunded: Option<DateTime<Utc>>,
    /// When a refund last failed, so that the seller keeps the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<DateTime<Utc>>,
    /// When the order was last cancelled; [`NEVER`] if the cancellation is final, so that no later report can undo it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancelled: Option<DateTime<Utc>>,
    /// Refunds and disputes of a part of the money. Each is stored as the platform's id of it, or as the sum that had
    /// been refunded up to then.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) partial: BTreeSet<String>,
    /// Disputes, by the platform's id, each with the lines of the order that it is about. A dispute without lines is
    /// about all of the money.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) disputed: BTreeMap<String, Vec<Returned>>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) won: BTreeSet<String>,
    /// Disputes that the seller has lost, by id.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) lost: BTreeSet<String>,
    /// Reports which say that a dispute ended, but not which dispute. Each is stored as the platform's id of the
    /// report.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) ends: BTreeSet<String>,
}

/// A platform's statement about a subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) at: DateTime<Utc>,
    pub(super) subscription: String,
    /// The order that the statement names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<Bought>,
    pub(super) standing: Standing,
    #[serde(default, skip_serializing_if = "Term::is_unsaid")]
    pub(super) term: Term,
}

impl Charge {
    /// Returns whether the charge itself was reported. If not, only its references or facts about its money are known.
    pub(super) fn is_paid(&self) -> bool {
        self.at.is_some() || !self.lines.is_empty()
    }

    /// Records a report of the charge. A line keeps the product that it was first mapped to, even if the seller maps
    /// the line to another product later.
    pub(super) fn pay(&mut self, charged: &Charged) {
        if charged.is_open {
            self.is_open |= self.at.is_none();
        } else {
            (self.at, self.is_open) = (Some(self.at.map_or(charged.at, |at| at.min(charged.at))), false);
        }
        self.count(charged.total, charged.stands_at);
        self.stands_at = self.stands_at.max(charged.stands_at);
        self.link(&charged.links);
        self.buy(charged.lines.iter().cloned());
    }

    /// Records the amount from a report that was made at `stands_at`. The newest report counts, in whatever order the
    /// reports arrive. If two reports have the same time, the larger amount counts. A report without an amount leaves
    /// the recorded amount unchanged.
    fn count(&mut self, total: Option<Amount>, stands_at: Option<DateTime<Utc>>) {
        self.total = match stands_at.cmp(&self.stands_at) {
            Ordering::Greater => total.or(self.total),
            Ordering::Equal => self.total.max(total),
            Ordering::Less => self.total.or(total),
        };
    }

    fn buy(&mut self, lines: impl IntoIterator<Item = Bought>) {
        for line in lines {
            match self.lines.iter_mut().find(|known| known.line == line.line) {
                None => self.lines.push(line),
                Some(known) if known.product.is_none() => *known = line,
                // The buyer may have added more pieces of this line to the order later, and paid for them too.
                Some(known) => {
                    known.amount = known.amount.max(line.amount);
                    if known.pieces < line.pieces {
                        (known.pieces, known.early) = (line.pieces, line.early);
                    }
                }
            }
        }
    }

    /// Records the payment, the invoice and the subscription that `links` names. A payment or an invoice that is
    /// already known is kept. A subscription is added to the known subscriptions.
    pub(super) fn link(&mut self, links: &Links) {
        let name = |id: &Option<crate::order::OrderId>| id.as_ref().map(|id| id.as_str().to_owned());
        self.payment = self.payment.take().or_else(|| name(&links.payment));
        self.invoice = self.invoice.take().or_else(|| name(&links.invoice));
        self.subscriptions.extend(name(&links.subscription));
        self.is_first |= links.is_first;
    }

    /// Records the guess that this order began the subscription in `links`.
    pub(super) fn guess(&mut self, links: &Links) {
        self.is_guessed |= self.subscriptions.is_empty();
        self.link(&Links { subscription: links.subscription.clone(), ..Links::default() });
    }

    /// Drops the guess that this order began `subscription`. A report has named the order that really began it.
    pub(super) fn unguess(&mut self, subscription: &str) {
        if self.is_guessed && self.subscriptions.remove(subscription) {
            self.is_guessed = false;
        }
    }

    /// Adds the facts of another record of the same charge.
    pub(super) fn merge(&mut self, other: Self) {
        self.at = match (self.at, other.at) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.is_open = self.at.is_none() && (self.is_open || other.is_open);
        self.count(other.total, other.stands_at);
        self.stands_at = self.stands_at.max(other.stands_at);
        self.payment = self.payment.take().or(other.payment);
        self.invoice = self.invoice.take().or(other.invoice);
        self.subscriptions.extend(other.subscriptions);
        self.is_guessed |= other.is_guessed;
        self.is_first |= other.is_first;
        self.buy(other.lines);
        self.money.merge(other.money);
        self.returned.extend(other.returned);
        self.noted.extend(other.noted);
    }

    /// Returns the products whose lines were all refunded. If the charge names no product, the only possible entry is
    /// `None`, which stands for all of its lines.
    pub(super) fn returned_products(&self) -> BTreeSet<Option<ProductId>> {
        let names_none = self.lines.iter().all(|line| line.product.is_none());
        let products = self.lines.iter().map(|line| line.product).filter(|product| names_none || product.is_some());
        products.filter(|product| self.are_returned(*product, &[])).collect()
    }

    /// Returns whether every line of a product was refunded.
    pub(super) fn is_returned(&self, product: ProductId) -> bool {
        self.are_returned(self.named_as(product), &[])
    }

    /// Returns whether refunds and the disputed lines `open` together cover all lines of a product. Returns `false` if
    /// no line of the product is in `open`.
    pub(super) fn is_disputed(&self, product: ProductId, open: &[&Returned]) -> bool {
        let product = self.named_as(product);
        let mut lines = self.lines.iter().filter(|line| line.product == product);
        lines.any(|line| open.iter().any(|returned| returned.is_of(line))) && self.are_returned(product, open)
    }

    fn are_returned(&self, product: Option<ProductId>, open: &[&Returned]) -> bool {
        let mut lines = self.lines.iter().filter(|line| line.product == product).peekable();
        lines.peek().is_some() && lines.all(|line| line.is_returned(&self.returned, open))
    }

    /// Returns the value of the field `product` in those lines that pay for `product`. This is usually `product`
    /// itself. If no line of the charge is mapped to a product, this is `None`, because all lines then pay for every
    /// product.
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
    /// Returns whether all of the line was refunded. This is the case if the refunded amounts add up to `amount`, or if
    /// the refunded pieces add up to `pieces`. The pieces of `early` refunds are not counted, because `pieces` does not
    /// include them. The disputed lines `open` count as refunded.
    fn is_returned(&self, refunds: &BTreeMap<String, Vec<Returned>>, open: &[&Returned]) -> bool {
        let (mut pieces, mut amount) = (0_u64, 0_u64);
        let refunds = refunds.iter().flat_map(|(refund, lines)| lines.iter().map(move |line| (Some(refund), line)));
        let all = refunds.chain(open.iter().map(|line| (None, *line)));
        for (refund, returned) in all.filter(|(_, returned)| returned.is_of(self)) {
            amount = amount.saturating_add(returned.amount.unwrap_or_default());
            if !refund.is_some_and(|refund| self.early.contains(refund)) {
                pieces = pieces.saturating_add(returned.pieces);
            }
        }
        pieces >= self.pieces.max(1) || self.amount.is_some_and(|all| all > 0 && amount >= all)
    }
}

impl Money {
    /// Returns the disputes that still count: for each, whether the seller lost it, and its lines. A dispute that the
    /// seller won does not count.
    ///
    /// A platform may report that a dispute ended, but not which dispute. As soon as there are as many such reports as
    /// disputes that were not won, no dispute counts. Until then, all disputes that were not won count.
    pub(super) fn disputes(&self) -> Vec<(bool, &Vec<Returned>)> {
        let not_won = self.disputed.iter().filter(|(dispute, _)| !self.won.contains(*dispute));
        let open: Vec<_> = not_won.map(|(dispute, lines)| (self.lost.contains(dispute), lines)).collect();
        if open.len() > self.ends.len() { open } else { Vec::new() }
    }

    /// Returns why the money went back, if it did. `stands_at` is when the platform last reported the order as valid:
    /// an earlier cancellation does not count any more.
    pub(super) fn taken_back(&self, stands_at: Option<DateTime<Utc>>) -> Option<Cause> {
        let is_last = |at: Option<DateTime<Utc>>, other: Option<DateTime<Utc>>| at.is_some() && at >= other;
        if self.is_refunded() {
            return Some(Cause::Refund);
        }
        is_last(self.cancelled, stands_at).then_some(Cause::Cancellation)
    }

    /// Returns whether all of the money was refunded, and no refund failed at the same time or later.
    pub(super) fn is_refunded(&self) -> bool {
        self.refunded.is_some() && self.refunded > self.kept
    }

    /// Records that all of the money went back; `at` is `None` if no later report can undo this.
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
        self.total = self.total.max(other.total);
        self.refunded = self.refunded.max(other.refunded);
        self.kept = self.kept.max(other.kept);
        self.cancelled = self.cancelled.max(other.cancelled);
        self.partial.extend(other.partial);
        self.disputed.extend(other.disputed);
        self.won.extend(other.won);
        self.lost.extend(other.lost);
        self.ends.extend(other.ends);
    }
}
