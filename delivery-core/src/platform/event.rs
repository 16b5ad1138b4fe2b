//! What a platform can say.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::product::ProductId;
use crate::store::{Standing, Term};

/// Something that a platform reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An order was paid, or a subscription was charged.
    Paid(Sale),
    /// A payment that was authorised before was taken. Its order was reported as [open](Sale::is_open).
    Captured {
        /// The payment.
        payment: String,
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
    Kept(Refund),
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

/// A paid order, or a charge of a subscription that its references name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Sale {
    /// The platform's own number of the order or charge.
    pub order: String,
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
    pub references: References,
}

/// What a platform says of a subscription itself, rather than of a charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Word {
    /// When it was so, by the platform's clock, in whole seconds.
    pub at: DateTime<Utc>,
    /// The subscription, and the order that began it where the word names that.
    pub references: References,
    /// What the subscription is of. Empty if the platform does not say, or if the word is about all of it.
    pub lines: Vec<Line>,
    /// Who has subscribed: needed only where a charge names no product, so that this word tells what was sold.
    pub buyer: Buyer,
    /// How it stands.
    pub status: Standing,
    /// The time that it names.
    pub term: Term,
}

/// Money that went back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Refund {
    /// Of what.
    pub of: Reference,
    /// The platform's other references of what was refunded: by them it is found where `of` is not known.
    #[serde(default)]
    pub references: References,
    /// How much of it.
    pub extent: Extent,
    /// Why.
    pub cause: Cause,
    /// When the platform said so, where it may say the opposite later: the newest word counts. `None`: it is final.
    #[serde(default)]
    pub at: Option<DateTime<Utc>>,
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
    /// How much is disputed. An end is of all that its dispute was about.
    #[serde(default = "all")]
    pub extent: Extent,
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
    /// Some pieces of some lines. A line is refunded when its pieces or its money add up.
    Lines {
        /// The platform's own number of this refund: each counts once.
        refund: String,
        /// The lines, each with the pieces that were refunded as its quantity; [`Line::ALL`] for all that there are.
        lines: Vec<Line>,
    },
}

fn all() -> Extent {
    Extent::Full
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
    /// Whether it is the charge by which the subscription began: the same payment as the order that began it, where the platform
    /// reports both.
    #[serde(default)]
    pub is_first: bool,
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
    /// What it cost, or the part of that which was refunded, in the platform's smallest unit, where refunds are told in money.
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
    pub customer: Option<String>,
}

impl Event {
    /// The order, charge or payment that it is about.
    pub(crate) fn concerns(&self) -> Option<&str> {
        match self {
            Self::Paid(sale) => Some(&sale.order),
            Self::Captured { payment, .. } => Some(payment),
            Self::Told(Word { references, .. }) => references.subscription.as_deref().or(references.order.as_deref()),
            Self::Refunded(Refund { of, .. })
            | Self::Kept(Refund { of, .. })
            | Self::Disputed(Dispute { of, .. })
            | Self::Restored(Dispute { of, .. }) => Some(of.as_str()),
            Self::Linked(references) => references.order.as_deref().or(references.payment.as_deref()),
            Self::Customer { .. } | Self::Unshown { .. } => None,
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

impl Line {
    /// All pieces of a line that is refunded.
    pub const ALL: u32 = u32::MAX;

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

impl From<Reference> for Dispute {
    fn from(of: Reference) -> Self {
        Self { of, number: None, end: None, extent: Extent::Full }
    }
}

impl Refund {
    /// All of it.
    #[must_use]
    pub fn full(of: Reference) -> Self {
        Self { of, references: References::default(), extent: Extent::Full, cause: Cause::Refund, at: None }
    }

    /// All of it if `is_full`, else a part of the money, which `refund` tells from others.
    #[must_use]
    pub fn of(of: Reference, is_full: bool, refund: Option<String>) -> Self {
        let partial = || Extent::Partial { refund: refund.unwrap_or_default() };
        Self { extent: if is_full { Extent::Full } else { partial() }, ..Self::full(of) }
    }

    /// A paid order that was cancelled.
    #[must_use]
    pub fn cancelled(order: String) -> Self {
        Self { cause: Cause::Cancellation, ..Self::full(Reference::Order(order)) }
    }
}
