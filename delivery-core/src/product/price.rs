//! A price.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;

use crate::text::Invalid;

/// A price without a currency: an exact decimal number, 0 ≤ price < 10^15, with at most four fraction digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Price(Decimal);

impl Price {
    /// Returns the amount, without trailing zeros.
    #[must_use]
    pub fn amount(self) -> Decimal {
        self.0
    }
}

impl TryFrom<Decimal> for Price {
    type Error = Invalid;

    fn try_from(amount: Decimal) -> Result<Self, Invalid> {
        let amount = amount.normalize();
        let accepted =
            !amount.is_sign_negative() && amount < Decimal::from(1_000_000_000_000_000_i64) && amount.scale() <= 4;
        accepted
            .then_some(Self(amount))
            .ok_or(Invalid::expected("must be a number from 0 to below 10^15 with at most 4 fraction digits"))
    }
}

impl FromStr for Price {
    type Err = Invalid;

    /// Parses a number as JSON writes it: `9.99`, `1e2`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text));
        // A text that `Decimal` cannot represent is replaced by -1, which `try_from` refuses. So every refused text has
        // the same error.
        Self::try_from(parsed.unwrap_or(Decimal::NEGATIVE_ONE))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
