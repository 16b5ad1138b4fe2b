//! An order and its identity.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::email::Email;
use crate::product::ProductId;
use crate::text::{Invalid, line};

/// A commerce platform's own number for an order: 1 to 255 characters without control characters, compared exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(String);

/// Which platform an order number comes from, so that two platforms can use the same number: 1 to 64 characters without
/// control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(String);

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

impl OrderId {
    /// The number as the platform wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OrderId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let accepted = line(text, 1, 255);
        accepted
            .then(|| Self(text.to_owned()))
            .ok_or(Invalid::expected("must be 1 to 255 characters without control characters"))
    }
}

impl Source {
    /// Orders that come through `POST /api/webhook/order`.
    #[must_use]
    pub fn webhook() -> Self {
        Self("webhook".to_owned())
    }

    /// The name of the platform.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Source {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let accepted = line(text, 1, 64);
        accepted
            .then(|| Self(text.to_owned()))
            .ok_or(Invalid::expected("must be 1 to 64 characters without control characters"))
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::text::serde_as_text!(OrderId, Source);
