//! The facts of a deal: charges, the keys that they issued or renewed, and what became of the money.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Cause, Offer, Returned, Step, Why};
use crate::key::KeyId;
use crate::product::ProductId;

/// An order, or a further charge of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Charge {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invoice: Option<String>,
    #[serde(skip_serializing_if = "Money::is_untouched")]
    pub(super) money: Money,
    /// Refunds of single lines, by the platform's number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) returned: BTreeMap<String, Vec<Returned>>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) is_renewal: bool,
    /// Keys that it issued.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sold: Vec<Sold>,
    /// Keys that it renewed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) renewed: BTreeSet<KeyId>,
    /// Refunds of a part of the money that were noted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) noted: BTreeSet<String>,
    /// Whether its refund was carried out.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) is_taken_back: bool,
    /// Whether its dispute was carried out, and not lifted since.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) is_suspended: bool,
}

/// A key that a charge issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sold {
    pub(super) key: KeyId,
    pub(super) product: ProductId,
    pub(super) names: Vec<String>,
    /// The identities of the lines that it was sold for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<String>,
    pub(super) pieces: u64,
    /// Whether all pieces were refunded line by line, and the key was revoked for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_taken_back: bool,
}

/// What became of money.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Money {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refunded: Option<Cause>,
    /// Refunds of a part of it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) partial: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) disputed: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) won: BTreeSet<String>,
    /// Ends of disputes that do not say of which.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) ends: BTreeSet<String>,
}

impl Charge {
    /// The keys that it issued or renewed.
    pub(super) fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.sold.iter().map(|sold| sold.key).chain(self.renewed.iter().copied())
    }

    /// Whether it has a key for an offer: of the product, or for each of its lines, which stay what they were sold as however they
    /// are mapped later.
    pub(super) fn has(&self, offer: &Offer) -> bool {
        let is_sold = self.sold.iter().any(|sold| sold.product == offer.product);
        is_sold || offer.lines.iter().all(|line| self.serves(line))
    }

    /// Takes over the lines of an offer whose key was sold for some of them, when the others were not known to be the same
    /// product. Returns the key, the pieces that it was sold for, and whether all of them were refunded.
    pub(super) fn extend(&mut self, offer: &Offer) -> Option<(KeyId, u64, bool)> {
        let has_new = !offer.lines.iter().all(|line| self.serves(line));
        let sold = self.sold.iter_mut().find(|sold| sold.product == offer.product)?;
        (has_new && offer.pieces > sold.pieces).then(|| {
            (sold.names, sold.lines) = (offer.names.clone(), offer.lines.clone());
            let pieces = std::mem::replace(&mut sold.pieces, offer.pieces);
            (sold.key, pieces, std::mem::take(&mut sold.is_taken_back))
        })
    }

    /// Whether a key was sold for a line.
    pub(super) fn serves(&self, line: &String) -> bool {
        self.sold.iter().any(|sold| sold.lines.contains(line))
    }

    /// Carries a refund out, once.
    pub(super) fn take_back(&mut self, refund: Option<Cause>, steps: &mut Vec<Step<'_>>) {
        if let Some(cause) = refund
            && !self.is_taken_back
            && (!self.sold.is_empty() || !self.renewed.is_empty())
        {
            self.is_taken_back = true;
            let why = match cause {
                Cause::Refund => Why::Refunded,
                Cause::Cancellation => Why::Cancelled,
            };
            steps.extend(self.sold.iter().map(|sold| Step::Revoke(sold.key, why)));
            steps.extend(self.renewed.iter().map(|key| Step::Shorten(*key)));
        }
        let is_returned = |sold: &Sold| self.returned_pieces(&sold.lines, &sold.names) >= sold.pieces;
        let returned: Vec<bool> = self.sold.iter().map(is_returned).collect();
        for (sold, is_returned) in self.sold.iter_mut().zip(returned) {
            if is_returned && !sold.is_taken_back {
                sold.is_taken_back = true;
                if !self.is_taken_back {
                    steps.push(Step::Revoke(sold.key, Why::Refunded));
                }
            }
        }
    }

    /// Notes refunds of a part of the money, each once, when there are keys.
    pub(super) fn note(&mut self, partial: BTreeSet<String>, steps: &mut Vec<Step<'_>>) {
        let keys: BTreeSet<KeyId> = self.keys().collect();
        if keys.is_empty() {
            return;
        }
        for refund in partial {
            if self.noted.insert(refund) {
                steps.extend(keys.iter().map(|key| Step::Note(*key)));
            }
        }
    }

    /// How many pieces of these lines were refunded.
    pub(super) fn returned_pieces(&self, lines: &[String], names: &[String]) -> u64 {
        let is_of = |returned: &&Returned| match &returned.line {
            Some(line) => lines.contains(line),
            None => names.contains(&returned.name),
        };
        self.returned.values().flatten().filter(is_of).map(|returned| returned.pieces).sum()
    }
}

impl Money {
    pub(super) fn is_disputed(&self) -> bool {
        self.disputed.difference(&self.won).count() > self.ends.len()
    }

    pub(super) fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.refunded = self.refunded.or(other.refunded);
        self.partial.extend(other.partial);
        self.disputed.extend(other.disputed);
        self.won.extend(other.won);
        self.ends.extend(other.ends);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !flag
}
