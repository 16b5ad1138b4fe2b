//! An order and its identity.

use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::product::ProductId;
use crate::text::Invalid;

crate::text::line_type! {
    /// A commerce platform's number of an order, or its reference to a charge, payment, invoice, subscription or
    /// customer: 1 to 255 characters without control characters, compared exactly.
    OrderId, 255
}

crate::text::line_type! {
    /// The platform that an order number comes from: 1 to 64 characters without control characters. It distinguishes
    /// orders that have the same number on different platforms.
    Source, 64
}

/// Identifies one order, no matter how often and through which channel it is reported.
///
/// An order reference and a product together identify a purchase. At most one key is issued for each purchase. That key
/// can later be [replaced](crate::key::Key::rotate).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a pair; a host writes it as a literal")]
pub struct OrderRef {
    /// The platform that the order comes from.
    pub source: Source,
    /// The platform's number for the order.
    pub id: OrderId,
}

/// A paid order: someone bought one product.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a webhook carries; a host writes it as a literal")]
pub struct Order {
    /// The identity of the order.
    pub reference: OrderRef,
    /// The product that was bought.
    pub product: ProductId,
    /// The buyer's address.
    pub email: Email,
}

impl Order {
    /// Creates an order from text: parses its source, its number and the e-mail address.
    ///
    /// ```
    /// use delivery_core::{order::Order, product::ProductId};
    ///
    /// let order = Order::new("shop", "2026-1001", ProductId::new(1)?, "ada@example.com")?;
    /// assert_eq!(order.reference.source.as_str(), "shop");
    /// assert!(Order::new("shop", "", ProductId::new(1)?, "ada@example.com").is_err());
    /// # Ok::<(), delivery_core::Invalid>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`], if the source, the number or the address is malformed.
    pub fn new(source: &str, id: &str, product: ProductId, email: &str) -> Result<Self, Invalid> {
        let reference = OrderRef { source: source.parse()?, id: id.parse()? };
        Ok(Self { reference, product, email: email.parse()? })
    }
}

impl Source {
    pub(crate) fn of(platform: &'static str) -> Self {
        Self(platform.into())
    }

    /// Returns the source of orders that arrive at `POST /api/webhook/order`.
    #[must_use]
    pub fn webhook() -> Self {
        Self("webhook".into())
    }
}
