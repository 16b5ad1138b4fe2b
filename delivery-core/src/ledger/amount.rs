//! Amounts of money, as platforms report them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::Invalid;

/// An amount of money, 0 or more, in the smallest unit of its currency. It is displayed as a number and the currency,
/// such as `12.50 EUR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct Amount {
    /// The number of smallest units, such as cents. It is at most 10¹².
    pub units: u64,
    /// The currency. It determines the smallest unit: a cent for `EUR`, a whole yen for `JPY`.
    pub currency: Currency,
}

/// A currency, by its code in ISO 4217: three letters, such as `EUR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

/// The currencies that do not have two decimal places, grouped by their number of decimal places (ISO 4217).
const PLACES: [(u32, &[&[u8; 3]]); 2] = [
    (
        0,
        &[
            b"BIF", b"CLP", b"DJF", b"GNF", b"ISK", b"JPY", b"KMF", b"KRW", b"PYG", b"RWF", b"UGX", b"VND", b"VUV",
            b"XAF", b"XOF", b"XPF",
        ],
    ),
    (3, &[b"BHD", b"IQD", b"JOD", b"KWD", b"LYD", b"OMR", b"TND"]),
];
/// The greatest number of units of an amount. The sum of nine million such amounts fits into a signed 64-bit integer.
const MOST: u64 = 1_000_000_000_000;

impl Amount {
    /// Returns an amount of `units`, in the smallest unit of `currency`. Returns `None` if `units` is more than 10¹².
    #[must_use]
    pub fn new(units: u64, currency: Currency) -> Option<Self> {
        (units <= MOST).then_some(Self { units, currency })
    }

    /// Reads a decimal number, such as `12.50`, and rounds it to the smallest unit. Returns `None` if `text` is not
    /// such a number, or if the amount is more than 10¹² units.
    #[must_use]
    pub fn from_decimal(text: &str, currency: Currency) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let places = usize::try_from(currency.places()).unwrap_or_default();
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let kept = fraction.get(..places).unwrap_or(fraction);
        let rounded = fraction.as_bytes().get(places).is_some_and(|digit| *digit >= b'5');
        let units: u64 = format!("{whole}{kept:0<places$}").parse().ok()?;
        Self::new(units.checked_add(rounded.into())?, currency)
    }

    /// Returns whether the number of units is at most 10¹². Deserialising an amount does not check this.
    pub(crate) fn is_valid(&self) -> bool {
        self.units <= MOST
    }

    /// Returns the number without the currency, such as `12.50`.
    #[must_use]
    pub fn decimal(&self) -> String {
        let (whole, places) = (10_u64.pow(self.currency.places()), self.currency.places() as usize);
        let (units, rest) = (self.units / whole, self.units % whole);
        if places == 0 { units.to_string() } else { format!("{units}.{rest:0places$}") }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.decimal(), self.currency)
    }
}

impl Currency {
    /// Returns the code in capital letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the number of decimal places of an amount: 2 unless the currency is in [`PLACES`].
    fn places(self) -> u32 {
        PLACES.iter().find(|(_, codes)| codes.contains(&&self.0)).map_or(2, |(places, _)| *places)
    }
}

impl FromStr for Currency {
    type Err = Invalid;

    fn from_str(code: &str) -> Result<Self, Invalid> {
        let letters = <[u8; 3]>::try_from(code.as_bytes()).ok();
        let letters = letters.filter(|letters| letters.iter().all(u8::is_ascii_alphabetic));
        letters
            .map(|letters| Self(letters.map(|letter| letter.to_ascii_uppercase())))
            .ok_or(Invalid::expected("must be the code of a currency such as EUR"))
    }
}

impl TryFrom<String> for Currency {
    type Error = Invalid;

    fn try_from(code: String) -> Result<Self, Invalid> {
        code.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.as_str().to_owned()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_written() {
        for (text, code, units, shown) in [
            ("12.50", "eur", 1250, "12.50 EUR"),
            ("12.5", "EUR", 1250, "12.50 EUR"),
            ("12", "EUR", 1200, "12.00 EUR"),
            ("0.07", "USD", 7, "0.07 USD"),
            ("1200.00", "JPY", 1200, "1200 JPY"),
            ("1.234", "KWD", 1234, "1.234 KWD"),
            ("12.345", "EUR", 1235, "12.35 EUR"),
            ("12.3449", "EUR", 1234, "12.34 EUR"),
            ("1200.50", "JPY", 1201, "1201 JPY"),
            ("10000000000.00", "EUR", MOST, "10000000000.00 EUR"),
        ] {
            let amount = Amount::from_decimal(text, code.parse().unwrap()).unwrap();
            assert_eq!((amount.units, amount.to_string().as_str()), (units, shown), "{text}");
        }
        for text in ["", ".5", "-1", "+1", "1,5", "1.2.3", "1e3", "10000000000.01", "99999999999999999999", " 1"] {
            assert_eq!(Amount::from_decimal(text, "EUR".parse().unwrap()), None, "{text}");
        }
        for code in ["", "EU", "EURO", "E1R", "ÄR"] {
            assert!(code.parse::<Currency>().is_err(), "{code}");
        }
    }
}
