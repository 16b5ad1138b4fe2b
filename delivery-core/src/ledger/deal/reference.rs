//! The names by which platforms refer to a sale.

use serde::{Deserialize, Serialize};

use crate::order::OrderId;

/// The charge that a report is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "platforms name nothing else")]
pub enum ChargeRef {
    /// An order or charge, by the platform's id of it.
    Order(OrderId),
    /// A payment, by the platform's id of it.
    Payment(OrderId),
}

/// The platform's references to one sale or charge, other than the id of the sale or charge itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters write it as a literal")]
pub struct Links {
    /// The order. `None` if the references were read from the order itself, or if no order is named.
    pub order: Option<OrderId>,
    /// The payment.
    pub payment: Option<OrderId>,
    /// The invoice.
    pub invoice: Option<OrderId>,
    /// The subscription.
    pub subscription: Option<OrderId>,
    /// Whether the references are those of the first charge of the subscription. If the platform also reports the order
    /// that began the subscription, the order and this charge are the same payment.
    #[serde(default)]
    pub is_first: bool,
}

crate::text::names! {
    /// The kind of thing that a platform's reference names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[expect(clippy::exhaustive_enums, reason = "platforms name nothing else")]
    pub enum ReferenceKind, "must be a kind of reference", {
        /// An order or charge.
        Order = "order",
        /// A payment.
        Payment = "payment",
        /// An invoice.
        Invoice = "invoice",
        /// A subscription.
        Subscription = "subscription",
    }
}

crate::text::serde_as_text!(ReferenceKind);

impl ChargeRef {
    /// Returns the platform's id of the order, charge or payment.
    #[must_use]
    pub fn id(&self) -> &OrderId {
        let (Self::Order(id) | Self::Payment(id)) = self;
        id
    }

    pub(crate) fn reference(&self) -> (ReferenceKind, &OrderId) {
        match self {
            Self::Order(id) => (ReferenceKind::Order, id),
            Self::Payment(id) => (ReferenceKind::Payment, id),
        }
    }
}

impl Links {
    /// Returns references that name only `subscription`. If it is `None`, they name nothing.
    #[must_use]
    pub fn of_subscription(subscription: Option<OrderId>) -> Self {
        Self { subscription, ..Self::default() }
    }

    pub(crate) fn references(&self) -> impl Iterator<Item = (ReferenceKind, &OrderId)> {
        let named = [&self.order, &self.payment, &self.invoice, &self.subscription];
        ReferenceKind::ALL.iter().copied().zip(named).filter_map(|(kind, id)| Some((kind, id.as_ref()?)))
    }
}
