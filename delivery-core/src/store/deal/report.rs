//! What a platform reports, in the terms of the store: products are found, addresses are checked.

use serde::{Deserialize, Serialize};

use crate::order::OrderId;
use crate::product::ProductId;
use crate::store::Sale;

/// The most products of an order: one of more waits for the seller.
pub const MOST_PRODUCTS: usize = 32;

/// Something that a platform reports of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what a deal knows to do")]
pub enum Report {
    /// An order was paid, or a subscription was charged again.
    Charged(Charged),
    /// Money went back, or an order was cancelled.
    Refunded {
        /// Of what.
        of: Of,
        /// How much of it.
        extent: Extent,
        /// Why.
        cause: Cause,
    },
    /// A buyer's bank took a payment back, or is about to.
    Disputed {
        /// Of what.
        of: Of,
        /// The platform's own number of the dispute; empty if it has none.
        dispute: String,
    },
    /// A dispute was won: the money stays.
    Won {
        /// Of what.
        of: Of,
        /// Which dispute, or the end of any.
        end: End,
    },
    /// References that belong to the same sale.
    Linked(Links),
}

/// How a dispute ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
pub enum End {
    /// That of this number, or the only one of a platform that does not number them.
    Of(String),
    /// Any: this is the platform's number of the end.
    Any(String),
}

/// A paid order, or a further charge of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Charged {
    /// The platform's number of the order or charge.
    pub order: OrderId,
    /// Its other references.
    pub links: Links,
    /// Whether it is a further charge of the subscription that `links` names.
    pub is_renewal: bool,
    /// The key of each product that was bought, ready to be issued.
    pub offers: Vec<Offer>,
    /// The lines that have no offer: the identity of each, and the most specific name that the platform has for it.
    pub unmapped: Vec<(String, String)>,
    /// Why they have none, for the seller.
    pub missing: Option<String>,
}

/// A key that a charge may issue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Offer {
    /// The product.
    pub product: ProductId,
    /// What the platform calls the lines that are this product: all its names for them.
    pub names: Vec<String>,
    /// The identities of these lines within the order.
    pub lines: Vec<String>,
    /// How many pieces.
    pub pieces: u64,
    /// The key and its messages.
    pub sale: Sale,
}

/// What a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what platforms name")]
pub enum Of {
    /// An order or charge.
    Order(OrderId),
    /// A payment.
    Payment(OrderId),
}

/// How much was refunded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
pub enum Extent {
    /// All of it.
    Full,
    /// A part of the money.
    Partial {
        /// What tells this refund from others of the same order or payment; each counts once.
        refund: String,
    },
    /// Some pieces of some lines.
    Lines {
        /// The platform's number of the refund, which counts once.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The most specific name that the platform has for the line.
    pub name: String,
    /// How many pieces.
    pub pieces: u64,
}

/// Why money went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "what platforms say")]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The seller refunded it.
    Refund,
    /// The order was cancelled after it was paid.
    Cancellation,
}

/// Other references of a sale or charge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "whoever reports builds it")]
pub struct Links {
    /// The order.
    pub order: Option<OrderId>,
    /// The payment.
    pub payment: Option<OrderId>,
    /// The invoice.
    pub invoice: Option<OrderId>,
    /// The subscription.
    pub subscription: Option<OrderId>,
}

/// What kind of thing a platform's reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "what platforms name")]
pub enum ReferenceKind {
    /// An order or charge.
    Order,
    /// A payment.
    Payment,
    /// An invoice.
    Invoice,
    /// A subscription.
    Subscription,
}

impl ReferenceKind {
    const ALL: [Self; 4] = [Self::Order, Self::Payment, Self::Invoice, Self::Subscription];

    /// The name that a store keeps.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Payment => "payment",
            Self::Invoice => "invoice",
            Self::Subscription => "subscription",
        }
    }
}

impl std::str::FromStr for ReferenceKind {
    type Err = crate::text::Invalid;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        named.ok_or(crate::text::Invalid::expected("must be a kind of reference"))
    }
}

crate::text::serde_as_text!(ReferenceKind);

impl Of {
    pub(in crate::store) fn reference(&self) -> (ReferenceKind, &OrderId) {
        match self {
            Self::Order(id) => (ReferenceKind::Order, id),
            Self::Payment(id) => (ReferenceKind::Payment, id),
        }
    }
}

impl Links {
    pub(in crate::store) fn references(&self) -> impl Iterator<Item = (ReferenceKind, &OrderId)> {
        let named = [&self.order, &self.payment, &self.invoice, &self.subscription];
        ReferenceKind::ALL.into_iter().zip(named).filter_map(|(kind, id)| Some((kind, id.as_ref()?)))
    }
}

impl Report {
    /// Everything that it names.
    pub(in crate::store) fn references(&self) -> Vec<(ReferenceKind, &OrderId)> {
        match self {
            Self::Charged(Charged { order, links, .. }) => {
                std::iter::once((ReferenceKind::Order, order)).chain(links.references()).collect()
            }
            Self::Refunded { of, .. } | Self::Disputed { of, .. } | Self::Won { of, .. } => vec![of.reference()],
            Self::Linked(links) => links.references().collect(),
        }
    }
}
