//! Reports of platforms about sales.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::reference::{ChargeRef, Links, ReferenceKind};
use super::term::{Own, Standing, Term};
use crate::ledger::{Amount, NewSale};
use crate::order::OrderId;
use crate::product::ProductId;

/// The maximum number of products in an order. An order with more products waits for the seller.
pub const MOST_PRODUCTS: usize = 32;

/// A platform's report about a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a deal understands no other reports")]
pub enum Report {
    /// An order was paid, or a subscription was charged.
    Charged(Charged),
    /// A payment that was at first only authorised was captured.
    Captured(Captured),
    /// A statement about a subscription itself.
    Subscription(SubscriptionReport),
    /// A payment was refunded, or an order was cancelled.
    Refunded(Refund),
    /// A refund failed: the seller keeps the money.
    Kept {
        /// The charge whose refund failed.
        of: ChargeRef,
        /// When the refund failed.
        at: DateTime<Utc>,
    },
    /// A dispute was opened, or the seller lost it: the buyer's bank took a payment back, or is about to.
    Disputed(Dispute),
    /// The seller won a dispute and keeps the money.
    Won(Dispute),
    /// References that belong to the same sale.
    Linked(Links),
}

/// An order, or a charge of the subscription that `links` names. It is paid, unless [`is_open`](Self::is_open) is set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Charged {
    /// The platform's id of the order or charge.
    pub order: OrderId,
    /// When the order or charge was paid, in whole seconds. Ignored if [`is_open`](Self::is_open) is set.
    pub at: DateTime<Utc>,
    /// When the platform reported the order as valid. Earlier cancellations do not count any more. A cancellation in
    /// the same second or later still counts.
    pub stands_at: Option<DateTime<Utc>>,
    /// Whether the payment is only authorised or pending. The order is paid once the payment is
    /// [captured](Report::Captured).
    pub is_open: bool,
    /// The amount of the payment, which may be only authorised; `None` if the amount is unknown.
    pub total: Option<Amount>,
    /// The other references of the order or charge. In these, `order` is set only if another order began the
    /// subscription that is charged.
    pub links: Links,
    /// The lines that were bought.
    pub lines: Vec<Bought>,
    /// The key of each product that was bought, ready to be issued.
    pub offers: Vec<Offer>,
    /// Why a line has no product, or why keys are missing from `offers`, for the seller to read.
    pub missing: Option<String>,
}

/// The capture of a payment that was at first only authorised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Captured {
    /// The payment.
    pub payment: OrderId,
    /// When the payment was captured, in whole seconds.
    pub at: DateTime<Utc>,
    /// The amount that was captured, if it is known.
    pub total: Option<Amount>,
    /// The order that the payment is for, if it is known.
    pub order: Option<OrderId>,
    /// The keys of that order's products, ready to be issued.
    pub offers: Vec<Offer>,
    /// Why keys are missing from `offers`, for the seller to read.
    pub missing: Option<String>,
}

/// A line that was bought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Bought {
    /// The line's identity within the order.
    pub line: String,
    /// The platform's names for the line, the most specific first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The product that the line is mapped to; `None` while the seller has not mapped the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<ProductId>,
    /// The number of pieces.
    pub pieces: u64,
    /// The platform's ids of the refunds that were made before this report. `pieces` does not include the pieces that
    /// these refunds returned.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub early: BTreeSet<String>,
    /// The amount at which the line is fully refunded, in the unit in which the platform counts refunds: the smallest
    /// unit of the currency, or pieces. `None` if the platform does not report amounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
    /// The time that the line pays for.
    #[serde(default, skip_serializing_if = "Term::is_unsaid")]
    pub term: Term,
    /// How long the product's keys are valid if no report says until when they are paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
}

/// A platform's statement about a subscription itself, rather than about a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct SubscriptionReport {
    /// When the statement was true, in whole seconds.
    pub at: DateTime<Utc>,
    /// The subscription, and the order that began it if the statement names that order.
    pub links: Links,
    /// What the subscription is for; empty if the statement does not say.
    pub lines: Vec<Bought>,
    /// The status of the subscription.
    pub standing: Standing,
    /// The time that the statement names.
    pub term: Term,
    /// The keys of the products that the statement names, ready to be issued. They are issued for charges that do not
    /// name their products themselves.
    pub offers: Vec<Offer>,
}

/// A key that is ready to be issued if its product was paid for and has no key yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Offer {
    /// The product.
    pub product: ProductId,
    /// The number of pieces that were bought. The key's use limit is already multiplied by this number.
    pub pieces: u64,
    /// The key and its messages.
    pub sale: NewSale,
}

/// A refund of a charge, or the cancellation of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Refund {
    /// The charge that was refunded.
    pub of: ChargeRef,
    /// Further references of the charge. The sale is found by these if it was not reported with the reference `of`.
    #[serde(default)]
    pub links: Links,
    /// How much was refunded.
    pub extent: Extent,
    /// Why it was refunded.
    pub cause: Cause,
    /// When the platform reported the refund; `None` if the refund is final. If it is not final, the platform may later
    /// report that the refund failed, or that the order is valid after all. The newest of these reports counts.
    #[serde(default)]
    pub at: Option<DateTime<Utc>>,
}

/// A dispute about a payment, or the end of such a dispute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Dispute {
    /// The disputed charge.
    pub of: ChargeRef,
    /// The platform's id of the dispute.
    pub number: Option<String>,
    /// The platform's id of the report that a dispute ended. Set only if the report does not say which dispute ended.
    pub end: Option<String>,
    /// How much is disputed. If this is the end of a dispute, the lines in this field are ignored, because the end
    /// concerns the whole dispute.
    #[serde(default = "all")]
    pub extent: Extent,
    /// Whether the seller has lost the dispute, so that the money will not come back.
    #[serde(default)]
    pub is_lost: bool,
}

fn all() -> Extent {
    Extent::Full
}

/// How much was refunded or is disputed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "platforms report nothing else")]
pub enum Extent {
    /// The whole charge was refunded, or is disputed.
    Full,
    /// A part of the money.
    Partial {
        /// A text that distinguishes this refund or dispute from others of the same order or payment: the platform's
        /// id of it, or the sum that has been refunded up to now. Reports with the same text count once.
        refund: String,
    },
    /// Some pieces of some lines, or a part of their price. A line counts as refunded once its refunds together cover
    /// all of its pieces or its whole price.
    Lines {
        /// The platform's id of this refund. Reports with the same id count once. Ignored in a dispute.
        refund: String,
        /// The pieces that were refunded or are disputed.
        lines: Vec<Returned>,
    },
}

/// Pieces of a line that were refunded or are disputed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Returned {
    /// The line's identity within the order, if the platform says which line it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The platform's most specific name for the line; empty if the platform has none.
    #[serde(default)]
    pub name: String,
    /// The number of refunded pieces. A number that is greater than the line's own number of pieces stands for all
    /// pieces.
    pub pieces: u64,
    /// The refunded amount in the unit of the line's [`amount`](Bought::amount), if the platform reports refunds as
    /// amounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
}

/// Why a payment was refunded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "platforms report nothing else")]
pub enum Cause {
    /// The seller refunded the payment.
    Refund,
    /// The order was cancelled after it was paid.
    Cancellation,
}

impl Charged {
    /// Returns an order or charge that was paid at this time, and of which nothing else is known.
    #[must_use]
    pub fn new(order: OrderId, at: DateTime<Utc>) -> Self {
        Self {
            order,
            at,
            stands_at: None,
            is_open: false,
            total: None,
            links: Links::default(),
            lines: Vec::new(),
            offers: Vec::new(),
            missing: None,
        }
    }
}

impl Bought {
    /// Returns a line without a name, without a product, and without a period that it pays for.
    #[must_use]
    pub fn new(line: impl Into<String>, pieces: u64) -> Self {
        Self {
            line: line.into(),
            names: Vec::new(),
            product: None,
            pieces,
            early: BTreeSet::new(),
            amount: None,
            term: Term::Unsaid,
            own: None,
        }
    }
}

impl SubscriptionReport {
    /// Returns a statement that names no product.
    #[must_use]
    pub fn new(at: DateTime<Utc>, links: Links, (standing, term): (Standing, Term)) -> Self {
        Self { at, links, lines: Vec::new(), standing, term, offers: Vec::new() }
    }
}

impl Refund {
    /// Returns a full and final refund.
    #[must_use]
    pub fn full(of: ChargeRef) -> Self {
        Self { of, links: Links::default(), extent: Extent::Full, cause: Cause::Refund, at: None }
    }

    /// Returns a full refund if `is_full` is set. Otherwise, returns a partial refund, which `refund` distinguishes
    /// from others.
    #[must_use]
    pub fn of(of: ChargeRef, is_full: bool, refund: Option<String>) -> Self {
        let partial = || Extent::Partial { refund: refund.unwrap_or_default() };
        Self { extent: if is_full { Extent::Full } else { partial() }, ..Self::full(of) }
    }

    /// Returns the cancellation of a paid order.
    #[must_use]
    pub fn cancelled(order: OrderId) -> Self {
        Self { cause: Cause::Cancellation, ..Self::full(ChargeRef::Order(order)) }
    }
}

impl From<ChargeRef> for Dispute {
    fn from(of: ChargeRef) -> Self {
        Self { of, number: None, end: None, extent: Extent::Full, is_lost: false }
    }
}

impl Report {
    /// Returns the keys that the report may issue, and the order that they belong to.
    pub(crate) fn offers(&self) -> (&[Offer], Option<&OrderId>) {
        match self {
            Self::Charged(charged) => (&charged.offers, Some(&charged.order)),
            Self::Captured(captured) => (&captured.offers, captured.order.as_ref()),
            Self::Subscription(word) => (&word.offers, word.links.order.as_ref()),
            _ => (&[], None),
        }
    }

    /// Returns every reference that the report names.
    pub(crate) fn references(&self) -> Vec<(ReferenceKind, &OrderId)> {
        match self {
            Self::Charged(Charged { order, links, .. }) => {
                std::iter::once((ReferenceKind::Order, order)).chain(links.references()).collect()
            }
            Self::Refunded(Refund { of, links, .. }) => {
                std::iter::once(of.reference()).chain(links.references()).collect()
            }
            Self::Kept { of, .. } | Self::Disputed(Dispute { of, .. }) | Self::Won(Dispute { of, .. }) => {
                vec![of.reference()]
            }
            Self::Captured(Captured { payment, .. }) => vec![(ReferenceKind::Payment, payment)],
            Self::Subscription(SubscriptionReport { links, .. }) | Self::Linked(links) => links.references().collect(),
        }
    }
}
