//! What a platform can say.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::product::ProductId;

/// Something that a platform reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An order was paid.
    Paid(Sale),
    /// A subscription was charged again.
    Renewed(Renewal),
    /// Money went back, or an order was cancelled.
    Refunded(Refund),
    /// A buyer's bank took a payment back, or is about to.
    Disputed(Dispute),
    /// A dispute was won: the money stays.
    Restored(Dispute),
    /// References that belong to the same sale.
    Linked(References),
    /// The address of a customer. A notification that says more than that cannot be applied.
    Customer {
        /// The platform's own reference.
        reference: String,
        /// The address.
        email: String,
        /// When the platform says that it was so; `None` if it does not say. An older address does not replace a newer one.
        told_at: Option<DateTime<Utc>>,
    },
}

/// A paid order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Sale {
    /// The platform's own number of the order.
    pub order: String,
    /// What was bought.
    pub lines: Vec<Line>,
    /// Who bought it.
    pub buyer: Buyer,
    /// The platform's other references of it, by which refunds and renewals may name it.
    pub references: References,
}

/// A further charge of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Renewal {
    /// The platform's own number of this charge.
    pub charge: String,
    /// The subscription.
    pub subscription: String,
    /// What is subscribed to, as far as the platform says: for a subscription that is not known.
    pub lines: Vec<Line>,
    /// Who has subscribed.
    pub buyer: Buyer,
    /// The platform's other references of this charge.
    pub references: References,
}

/// Money that went back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Refund {
    /// Of what.
    pub of: Reference,
    /// How much of it.
    pub extent: Extent,
    /// Why.
    pub cause: Cause,
}

/// A dispute about a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Dispute {
    /// About what.
    pub of: Reference,
    /// The platform's own number of the dispute.
    pub number: Option<String>,
    /// The platform's own number of the end of a dispute, where it does not say of which: it ends any.
    pub end: Option<String>,
}

/// How much was refunded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "adapters build it")]
pub enum Extent {
    /// All of it.
    Full,
    /// A part of the money.
    Partial {
        /// What tells this refund from others of the same order: the platform's own number, or the sum that was refunded so far.
        /// Each counts once.
        refund: String,
    },
    /// Some pieces of some lines. A line is refunded when its pieces add up.
    Lines {
        /// The platform's own number of this refund: each counts once.
        refund: String,
        /// The lines, each with the pieces that were refunded as its quantity.
        lines: Vec<Line>,
    },
}

/// Why money went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "adapters build it")]
pub enum Cause {
    /// The seller refunded it.
    Refund,
    /// The order was cancelled after it was paid.
    Cancellation,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "adapters build it")]
pub enum Reference {
    /// An order, or a charge of a subscription, by the platform's own number.
    Order(String),
    /// A payment.
    Payment(String),
}

/// A platform's references of one sale or charge, beside its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct References {
    /// The order, where the references were not read from it.
    pub order: Option<String>,
    /// The payment.
    pub payment: Option<String>,
    /// The invoice.
    pub invoice: Option<String>,
    /// The subscription.
    pub subscription: Option<String>,
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
    /// How many pieces, 1 or more.
    pub quantity: u32,
}

/// Who bought something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Buyer {
    /// The address as the platform has it, unchecked; `None` if it has none.
    pub email: Option<String>,
    /// The platform's own reference of the customer, whose address it [tells](Event::Customer) elsewhere. That address counts
    /// before `email`.
    pub customer: Option<String>,
}

impl Event {
    /// The order, charge or payment that it is about.
    pub(crate) fn concerns(&self) -> Option<&str> {
        match self {
            Self::Paid(sale) => Some(&sale.order),
            Self::Renewed(renewal) => Some(&renewal.charge),
            Self::Refunded(Refund { of, .. })
            | Self::Disputed(Dispute { of, .. })
            | Self::Restored(Dispute { of, .. }) => Some(of.as_str()),
            Self::Linked(references) => references.order.as_deref().or(references.payment.as_deref()),
            Self::Customer { .. } => None,
        }
    }
}

impl Reference {
    fn as_str(&self) -> &str {
        match self {
            Self::Order(name) | Self::Payment(name) => name,
        }
    }
}

impl Buyer {
    /// A buyer of whom nothing but an address is known, or not even that.
    #[must_use]
    pub fn by_email(email: Option<&str>) -> Self {
        Self { email: email.map(str::to_owned), customer: None }
    }
}

impl From<Reference> for Dispute {
    fn from(of: Reference) -> Self {
        Self { of, number: None, end: None }
    }
}

impl Refund {
    /// All of it.
    #[must_use]
    pub fn full(of: Reference) -> Self {
        Self { of, extent: Extent::Full, cause: Cause::Refund }
    }

    /// All of it if `is_full`, else a part of the money, which `refund` tells from others.
    #[must_use]
    pub fn of(of: Reference, is_full: bool, refund: Option<String>) -> Self {
        let partial = || Extent::Partial { refund: refund.unwrap_or_default() };
        Self { of, extent: if is_full { Extent::Full } else { partial() }, cause: Cause::Refund }
    }

    /// A paid order that was cancelled.
    #[must_use]
    pub fn cancelled(order: String) -> Self {
        Self { of: Reference::Order(order), extent: Extent::Full, cause: Cause::Cancellation }
    }
}
