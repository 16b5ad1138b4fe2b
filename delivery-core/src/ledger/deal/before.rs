//! Deals as earlier versions stored them. What these versions granted is kept until a charge names a date.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::facts::{self, Said};
use super::{Bought, Cause, Deal, Kept, Returned, Term, Why};
use crate::key::KeyId;
use crate::product::ProductId;
use crate::terms::NEVER;

/// The refund number of lines that an earlier version marked as refunded.
const BEFORE: &str = "before";

/// A deal as it is stored, by this version or an earlier one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stored {
    sales: BTreeMap<String, facts::Charge>,
    money: BTreeMap<String, facts::Money>,
    words: BTreeSet<Said>,
    keys: Vec<Kept>,
    paid_by: BTreeMap<String, BTreeSet<String>>,
    merged: Option<i64>,
    /// Only stored by an earlier version.
    charges: BTreeMap<String, Charge>,
    /// Only stored by an earlier version.
    payments: BTreeMap<String, Money>,
    /// Only stored by an earlier version.
    invoices: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Charge {
    payment: Option<String>,
    invoice: Option<String>,
    money: Money,
    returned: BTreeMap<String, Vec<Returned>>,
    sold: Vec<Sold>,
    renewed: BTreeSet<KeyId>,
    noted: BTreeSet<String>,
    is_taken_back: bool,
    is_suspended: bool,
}

#[derive(Debug, Deserialize)]
struct Sold {
    key: KeyId,
    product: ProductId,
    names: Vec<String>,
    #[serde(default)]
    lines: Vec<String>,
    pieces: u64,
    #[serde(default)]
    is_taken_back: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Money {
    refunded: Option<Cause>,
    partial: BTreeSet<String>,
    disputed: BTreeSet<String>,
    won: BTreeSet<String>,
    ends: BTreeSet<String>,
}

impl From<Stored> for Deal {
    fn from(stored: Stored) -> Self {
        let Stored { sales, money, words, keys, mut paid_by, merged, charges, payments, invoices } = stored;
        paid_by.extend(invoices.into_iter().map(|(invoice, payment)| (invoice, BTreeSet::from([payment]))));
        let mut deal = Self { charges: sales, payments: money, words, keys, invoices: paid_by, merged };
        let disputed: BTreeSet<KeyId> =
            charges.values().filter(|charge| charge.is_suspended).flat_map(Charge::keys).collect();
        let products: BTreeMap<KeyId, ProductId> =
            charges.values().flat_map(|charge| &charge.sold).map(|sold| (sold.key, sold.product)).collect();
        deal.payments.extend(payments.into_iter().map(|(name, money)| (name, money.into())));
        for (order, charge) in charges {
            deal.keys.extend(charge.sold.iter().map(|sold| charge.kept(&order, sold, &disputed)));
            deal.charges.insert(order, charge.into_facts(&products));
        }
        deal
    }
}

impl Charge {
    /// Returns the keys that the charge issued or renewed.
    fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.sold.iter().map(|sold| sold.key).chain(self.renewed.iter().copied())
    }

    fn kept(&self, order: &str, sold: &Sold, disputed: &BTreeSet<KeyId>) -> Kept {
        let taken = match self.money.refunded {
            Some(Cause::Cancellation) if self.is_taken_back => Some(Why::Cancelled),
            _ => (self.is_taken_back || sold.is_taken_back).then_some(Why::Refunded),
        };
        let is_disputed = disputed.contains(&sold.key);
        Kept { taken, is_disputed, ..Kept::new(sold.key, sold.product, order, sold.pieces) }
    }

    fn into_facts(self, products: &BTreeMap<KeyId, ProductId>) -> facts::Charge {
        let (mut lines, mut returned) = (Vec::new(), self.returned);
        for sold in self.sold {
            let more = u64::try_from(sold.lines.len()).unwrap_or(u64::MAX).saturating_sub(1);
            let names = sold.lines.is_empty().then(String::new).into_iter().chain(sold.lines);
            for (index, line) in names.enumerate() {
                if sold.is_taken_back {
                    // How the pieces were divided among several lines was not stored, so all pieces count as refunded.
                    let all =
                        Returned { line: Some(line.clone()), name: String::new(), pieces: u64::MAX, amount: None };
                    returned.entry(BEFORE.to_owned()).or_default().push(all);
                }
                let pieces = if index == 0 { sold.pieces.saturating_sub(more).max(1) } else { 1 };
                lines.push(bought(line, sold.names.clone(), sold.product, pieces));
            }
        }
        let renewed = self.renewed.iter().filter_map(|key| products.get(key));
        lines.extend(renewed.map(|product| bought(format!("={product}"), Vec::new(), *product, 1)));
        facts::Charge {
            payment: self.payment,
            invoice: self.invoice,
            subscriptions: BTreeSet::from([String::new()]),
            lines,
            money: self.money.into(),
            returned,
            noted: self.noted,
            ..facts::Charge::default()
        }
    }
}

fn bought(line: String, names: Vec<String>, product: ProductId, pieces: u64) -> Bought {
    Bought { line, names, product: Some(product), pieces, amount: None, term: Term::Unsaid, own: None }
}

impl From<Money> for facts::Money {
    fn from(money: Money) -> Self {
        Self {
            refunded: (money.refunded == Some(Cause::Refund)).then_some(NEVER),
            cancelled: (money.refunded == Some(Cause::Cancellation)).then_some(NEVER),
            kept: None,
            captured: None,
            partial: money.partial,
            disputed: money.disputed.into_iter().map(|dispute| (dispute, Vec::new())).collect(),
            won: money.won,
            ends: money.ends,
        }
    }
}
