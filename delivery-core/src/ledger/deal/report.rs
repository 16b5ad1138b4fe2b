//! What platforms report of sales.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};

use super::reference::{ChargeRef, Links, ReferenceKind};
use super::term::{Own, Standing, Term};
use crate::ledger::NewSale;
use crate::order::OrderId;
use crate::product::ProductId;

/// The most products of an order: one of more waits for the seller.
pub const MOST_PRODUCTS: usize = 32;

/// Something that a platform reports of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what a deal knows to do")]
pub enum Report {
    /// An order was paid, or a subscription was charged.
    Charged(Charged),
    /// A payment that was authorised before was taken.
    Captured(Captured),
    /// What the platform says of a subscription itself.
    Told(Word),
    /// Money went back, or an order was cancelled.
    Refunded(Refund),
    /// A refund failed: the money stays.
    Kept {
        /// Of what.
        of: ChargeRef,
        /// When.
        at: DateTime<Utc>,
    },
    /// A buyer's bank took a payment back, or is about to.
    Disputed(Dispute),
    /// A dispute was won: the money stays.
    Won(Dispute),
    /// References that belong to the same sale.
    Linked(Links),
}

/// A paid order, or a charge of the subscription that `links` names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Charged {
    /// The platform's number of the order or charge.
    pub order: OrderId,
    /// When it was paid, in whole seconds.
    pub at: DateTime<Utc>,
    /// When the platform said that it stands; a cancellation of that second or later counts.
    pub stands_at: Option<DateTime<Utc>>,
    /// Whether it is authorised only: it is paid once its payment is [captured](Report::Captured).
    pub is_open: bool,
    /// Its other references; the order, if another began its subscription.
    pub links: Links,
    /// What was bought.
    pub lines: Vec<Bought>,
    /// The key of each product that was bought, ready to be issued.
    pub offers: Vec<Offer>,
    /// Why a line has no product, for the seller.
    pub missing: Option<String>,
}

/// A payment that was authorised before, and taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Captured {
    /// The payment.
    pub payment: OrderId,
    /// When, in whole seconds.
    pub at: DateTime<Utc>,
    /// The order that was authorised by it, if it is known.
    pub order: Option<OrderId>,
    /// The keys of the products of that order.
    pub offers: Vec<Offer>,
    /// What is missing, for the seller, so that they cannot be offered.
    pub missing: Option<String>,
}

/// A line that was bought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Bought {
    /// Its identity within the order.
    pub line: String,
    /// What the platform calls it, the most specific name first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The product that it is; `None` while the seller has mapped it to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<ProductId>,
    /// How many pieces.
    pub pieces: u64,
    /// What it cost, where refunds are told in money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
    /// What it pays for.
    #[serde(default, skip_serializing_if = "Term::is_unsaid")]
    pub term: Term,
    /// How long its product's keys live where nothing says until when they are paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
}

/// What a platform says of a subscription itself, rather than of a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Word {
    /// When it was so, in whole seconds.
    pub at: DateTime<Utc>,
    /// The subscription, and the order that began it if the word names that.
    pub links: Links,
    /// What the subscription is of; empty if the word does not say.
    pub lines: Vec<Bought>,
    /// How it stands.
    pub standing: Standing,
    /// The time that the word names.
    pub term: Term,
    /// The keys of its products, for charges that name none.
    pub offers: Vec<Offer>,
}

/// A key that a charge may issue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Offer {
    /// The product.
    pub product: ProductId,
    /// How many pieces.
    pub pieces: u64,
    /// The key and its messages.
    pub sale: NewSale,
}

/// Money that went back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Refund {
    /// Of what.
    pub of: ChargeRef,
    /// Other references of what was refunded: by them it is found where `of` is not known.
    #[serde(default, alias = "references")]
    pub links: Links,
    /// How much of it.
    pub extent: Extent,
    /// Why.
    pub cause: Cause,
    /// When the platform said so, where it may say the opposite later: the newest word counts. `None`: it is final.
    #[serde(default)]
    pub at: Option<DateTime<Utc>>,
}

/// A dispute about a payment, or the end of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Dispute {
    /// About what.
    pub of: ChargeRef,
    /// The platform's own number of the dispute.
    pub number: Option<String>,
    /// The platform's own number of the end of a dispute, where it does not say of which: it ends any.
    pub end: Option<String>,
    /// How much is disputed. An end is of all that its dispute was about.
    #[serde(default = "all")]
    pub extent: Extent,
}

fn all() -> Extent {
    Extent::Full
}

/// A name, or the first of those that an earlier version kept.
fn first<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Name(String),
        Names(Vec<String>),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Name(name) => name,
        Stored::Names(names) => names.into_iter().next().unwrap_or_default(),
    })
}

/// How much was refunded or is disputed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
pub enum Extent {
    /// All of it.
    Full,
    /// A part of the money.
    Partial {
        /// What tells this refund from others of the same order or payment: the platform's own number, or the sum that was refunded
        /// so far. Each counts once.
        refund: String,
    },
    /// Some pieces of some lines. A line is refunded when its pieces or its money add up.
    Lines {
        /// The platform's own number of this refund: each counts once.
        refund: String,
        /// What was refunded.
        lines: Vec<Returned>,
    },
}

/// Pieces of a line that were refunded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Returned {
    /// Its identity within the order, if the platform says which line it was.
    // The former names are those of events that an earlier version kept.
    #[serde(default, alias = "id", skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The most specific name that the platform has for the line; empty if it has none.
    #[serde(default, alias = "names", deserialize_with = "first")]
    pub name: String,
    /// How many pieces; more than there are stand for all.
    #[serde(alias = "quantity")]
    pub pieces: u64,
    /// How much money, in the platform's smallest unit, where refunds are told in money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
}

/// Why money went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
pub enum Cause {
    /// The seller refunded it.
    #[serde(alias = "refund")]
    Refund,
    /// The order was cancelled after it was paid.
    #[serde(alias = "cancellation")]
    Cancellation,
}

impl Refund {
    /// All of it.
    #[must_use]
    pub fn full(of: ChargeRef) -> Self {
        Self { of, links: Links::default(), extent: Extent::Full, cause: Cause::Refund, at: None }
    }

    /// All of it if `is_full`, else a part of the money, which `refund` tells from others.
    #[must_use]
    pub fn of(of: ChargeRef, is_full: bool, refund: Option<String>) -> Self {
        let partial = || Extent::Partial { refund: refund.unwrap_or_default() };
        Self { extent: if is_full { Extent::Full } else { partial() }, ..Self::full(of) }
    }

    /// A paid order that was cancelled.
    #[must_use]
    pub fn cancelled(order: OrderId) -> Self {
        Self { cause: Cause::Cancellation, ..Self::full(ChargeRef::Order(order)) }
    }
}

impl From<ChargeRef> for Dispute {
    fn from(of: ChargeRef) -> Self {
        Self { of, number: None, end: None, extent: Extent::Full }
    }
}

impl Report {
    /// The keys that it may issue, and the order of theirs.
    pub(crate) fn offers(&self) -> (&[Offer], Option<&OrderId>) {
        match self {
            Self::Charged(charged) => (&charged.offers, Some(&charged.order)),
            Self::Captured(captured) => (&captured.offers, captured.order.as_ref()),
            Self::Told(word) => (&word.offers, word.links.order.as_ref()),
            _ => (&[], None),
        }
    }

    /// Everything that it names.
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
            Self::Told(Word { links, .. }) | Self::Linked(links) => links.references().collect(),
        }
    }
}
