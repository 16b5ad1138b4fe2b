//! An order and its identity.

use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::product::ProductId;

crate::text::line_type! {
    /// A commerce platform's own number for an order: 1 to 255 characters without control characters, compared exactly.
    OrderId, 255
}

crate::text::line_type! {
    /// Which platform an order number comes from, so that two platforms can use the same number: 1 to 64 characters without
    /// control characters.
    Source, 64
}

/// Identifies one order, however often and through whatever channel it is reported.
///
/// Together with the product it identifies a purchase: at most one key is ever issued for each (source, order,
/// product).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a pair; a host writes it as a literal")]
pub struct OrderRef {
    /// The platform.
    pub source: Source,
    /// The platform's number.
    pub id: OrderId,
}

/// A paid order: someone bought one product.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a webhook carries; a host writes it as a literal")]
pub struct Order {
    /// Which order.
    pub reference: OrderRef,
    /// What was bought.
    pub product: ProductId,
    /// Who bought it.
    pub email: Email,
}

impl Source {
    pub(crate) fn of(platform: &'static str) -> Self {
        Self(platform.into())
    }

    /// Orders that come through `POST /api/webhook/order`.
    #[must_use]
    pub fn webhook() -> Self {
        Self("webhook".into())
    }
}
