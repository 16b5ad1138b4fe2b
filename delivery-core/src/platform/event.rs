//! What a platform can say.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ledger::{ChargeRef, Dispute, Links, Refund, Standing, Term};
use crate::order::OrderId;
use crate::product::ProductId;

/// Something that a platform reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An order was paid, or a subscription was charged.
    Paid(Sale),
    /// A payment that was authorised before was taken. Its order was reported as [open](Sale::is_open).
    Captured {
        /// The payment.
        payment: OrderId,
        /// When, in whole seconds.
        at: DateTime<Utc>,
        /// Who bought it, as far as the platform says that here.
        buyer: Buyer,
    },
    /// Something was sold that the notification does not show. It waits for the seller.
    Unshown {
        /// What the seller can do about it.
        advice: String,
    },
    /// What a platform says of a subscription itself.
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
    Restored(Dispute),
    /// References that belong to the same sale.
    Linked(Links),
    /// The address of a customer. A notification that says more than that cannot be applied.
    Customer {
        /// The platform's own reference.
        reference: OrderId,
        /// The address.
        email: String,
        /// When the platform says that it was so; `None` if it does not say. An older address does not replace a newer one.
        told_at: Option<DateTime<Utc>>,
    },
}

/// A paid order, or a charge of a subscription that its references name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Sale {
    /// The platform's own number of the order or charge.
    pub order: OrderId,
    /// When it was paid, in whole seconds; `None` if the platform does not say: when it was received.
    #[serde(default)]
    pub at: Option<DateTime<Utc>>,
    /// When the platform said that it stands, where it may say the opposite before and after: the newest word counts.
    #[serde(default)]
    pub stands_at: Option<DateTime<Utc>>,
    /// Whether it is authorised only: it is paid once its payment is [captured](Event::Captured).
    #[serde(default)]
    pub is_open: bool,
    /// Whether it charges again a subscription that began with another order. If nothing names that order, it is the only one of the same
    /// buyer and product.
    #[serde(default)]
    pub is_again: bool,
    /// What was bought. Empty if the platform does not say: then what the subscription is of.
    pub lines: Vec<Line>,
    /// Who bought it.
    pub buyer: Buyer,
    /// The platform's other references of it, by which other events may name it.
    #[serde(alias = "references")]
    pub links: Links,
}

/// What a platform says of a subscription itself, rather than of a charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Word {
    /// When it was so, by the platform's clock, in whole seconds.
    pub at: DateTime<Utc>,
    /// The subscription, and the order that began it where the word names that.
    #[serde(alias = "references")]
    pub links: Links,
    /// What the subscription is of. Empty if the platform does not say, or if the word is about all of it.
    pub lines: Vec<Line>,
    /// Who has subscribed: needed only where a charge names no product, so that this word tells what was sold.
    pub buyer: Buyer,
    /// How it stands.
    pub status: Standing,
    /// The time that it names.
    pub term: Term,
}

/// A line of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Line {
    /// The platform's own number of the line within its order, if it has one: the same in each event about the order, and in
    /// refunds of the line.
    pub id: Option<String>,
    /// The platform's names of what was bought, the most specific first, by which a seller may have mapped it to a product.
    pub names: Vec<String>,
    /// The number of a product, from a field that only the seller can set. It counts if none of the names is mapped.
    pub own: Option<ProductId>,
    /// How many pieces, 1 or more. 0 if the platform says something that is no whole number: the line waits for the seller.
    pub quantity: u32,
    /// What it cost, in the platform's smallest unit, where refunds are told in money.
    #[serde(default)]
    pub amount: Option<u64>,
    /// What it pays for.
    #[serde(default)]
    pub term: Term,
}

/// Who bought something.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Buyer {
    /// The address as the platform has it, unchecked; `None` if it has none.
    pub email: Option<String>,
    /// The platform's own reference of the customer, whose address it [tells](Event::Customer) elsewhere. That address counts
    /// before `email`.
    pub customer: Option<OrderId>,
}

impl Event {
    /// The order, charge or payment that it is about.
    pub(crate) fn concerns(&self) -> Option<&OrderId> {
        match self {
            Self::Paid(sale) => Some(&sale.order),
            Self::Captured { payment, .. } => Some(payment),
            Self::Told(Word { links, .. }) => links.subscription.as_ref().or(links.order.as_ref()),
            Self::Refunded(Refund { of, .. })
            | Self::Kept { of, .. }
            | Self::Disputed(Dispute { of, .. })
            | Self::Restored(Dispute { of, .. }) => Some(of.id()),
            Self::Linked(links) => links.order.as_ref().or(links.payment.as_ref()),
            Self::Customer { .. } | Self::Unshown { .. } => None,
        }
    }
}

impl Sale {
    /// An order of which no more is known.
    #[must_use]
    pub fn new(order: OrderId) -> Self {
        let (lines, buyer, links) = (Vec::new(), Buyer::default(), Links::default());
        Self { order, at: None, stands_at: None, is_open: false, is_again: false, lines, buyer, links }
    }
}

impl Word {
    /// A word about all of a subscription, which does not say who has it.
    #[must_use]
    pub fn new(at: DateTime<Utc>, links: Links, (status, term): (Standing, Term)) -> Self {
        Self { at, links, lines: Vec::new(), buyer: Buyer::default(), status, term }
    }
}

impl Line {
    /// One piece of what has these names, which pays for nothing beyond itself.
    #[must_use]
    pub fn named(names: impl IntoIterator<Item = Option<String>>) -> Self {
        let names = names.into_iter().flatten().collect();
        Self { id: None, names, own: None, quantity: 1, amount: None, term: Term::Unsaid }
    }
}

impl Buyer {
    /// A buyer of whom nothing but an address is known, or not even that.
    #[must_use]
    pub fn by_email(email: Option<&str>) -> Self {
        Self { email: email.map(str::to_owned), customer: None }
    }
}
