//! Reads a platform's JSON strictly, and finds values by JSON pointers (RFC 6901).

use std::fmt;

use chrono::{DateTime, NaiveDateTime, Timelike, Utc};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Term, Unreadable};
use crate::ledger::Amount;
use crate::order::OrderId;
use crate::product::ProductId;

/// The maximum nesting depth of objects and lists.
const DEPTH: usize = 64;
/// The prefix of an SKU that contains the id of a product, such as `PROD-7`.
const SKU: &str = "PROD-";

/// Reads a JSON object. Fails if the body is not UTF-8, if an object has the same name twice, or if the nesting is
/// deeper than [`DEPTH`].
pub(super) fn object(body: &[u8]) -> Result<Value, Unreadable> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Strict { depth: DEPTH }.deserialize(&mut reader).map_err(|_| Unreadable)?;
    reader.end().map_err(|_| Unreadable)?;
    if value.is_object() { Ok(value) } else { Err(Unreadable) }
}

/// Returns the text at `pointer`. Returns `None` if there is no text, or if the text is empty.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// Returns the reference at `pointer`, as text. A reference is a text that is not empty, or an integer. Returns `None`
/// for any other value.
pub(super) fn reference(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the reference at `pointer`, such as the number of an order or subscription; `None` if there is no reference.
/// Fails if the reference is not a valid [`OrderId`], because ignoring the reference could attribute a charge to the
/// wrong sale.
pub(super) fn id(value: &Value, pointer: &str) -> Result<Option<OrderId>, Unreadable> {
    reference(value, pointer).map(|name| name.parse()).transpose().map_err(|_| Unreadable)
}

/// Returns a reference as [`id()`] does, but fails if there is no reference.
pub(super) fn needed(value: &Value, pointer: &str) -> Result<OrderId, Unreadable> {
    id(value, pointer)?.ok_or(Unreadable)
}

/// Returns the RFC 3339 time at `pointer`; `None` if there is no valid time. A space is accepted in place of the `T`,
/// and a time without a zone is in UTC. Fractions of a second are dropped.
pub(super) fn time(value: &Value, pointer: &str) -> Option<DateTime<Utc>> {
    instant(text(value, pointer)?)
}

/// Reads a time from a text, as [`time()`] does.
pub(super) fn instant(text: &str) -> Option<DateTime<Utc>> {
    let at = DateTime::parse_from_rfc3339(text).map(|at| at.to_utc());
    let at = at.or_else(|_| text.replacen(' ', "T", 1).parse::<NaiveDateTime>().map(|at| at.and_utc())).ok()?;
    at.with_nanosecond(0)
}

/// Returns the time at `pointer`, which is a whole number of seconds since 1970; `None` if there is no such number.
pub(super) fn seconds(value: &Value, pointer: &str) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(value.pointer(pointer)?.as_i64()?, 0)
}

/// Returns an amount of money. The value at `units` is an integer that counts the currency's smallest units, and the
/// value at `currency` is the code of the currency. Returns `None` if either is missing or invalid.
pub(super) fn units(value: &Value, units: &str, currency: &str) -> Option<Amount> {
    Amount::new(reference(value, units)?.parse().ok()?, text(value, currency)?.parse().ok()?)
}

/// Returns an amount of money. The value at `decimal` is a decimal number, as text or as a JSON number, and the value
/// at `currency` is the code of the currency. Returns `None` if either is missing or invalid.
pub(super) fn decimal(value: &Value, decimal: &str, currency: &str) -> Option<Amount> {
    let number = match value.pointer(decimal)? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Amount::from_decimal(&number, text(value, currency)?.parse().ok()?)
}

/// Returns whether the value at `pointer` is the boolean `true`. The text `"true"` does not count.
pub(super) fn is_true(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer) == Some(&Value::Bool(true))
}

/// Returns the list at `pointer`, or an empty list if there is none.
pub(super) fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the period between the times at two pointers; `None` if one of the times is missing.
pub(super) fn period(value: &Value, [from, until]: [&str; 2]) -> Option<Term> {
    Some(Term::Period { from: time(value, from)?, until: time(value, until)? })
}

/// Returns a term that ends at the time at `pointer`, or [`Term::Unsaid`] if there is no time at `pointer`.
pub(super) fn until(value: &Value, pointer: &str) -> Term {
    time(value, pointer).map_or(Term::Unsaid, Term::Until)
}

/// Returns the number of pieces of a line, for [`Line::quantity`](super::Line::quantity).
///
/// * If the value is missing or null, returns 1.
/// * If the value is zero, returns `None`. The caller then ignores the line.
/// * If the value is not a whole number, is negative or is too large, returns 0, which means that the seller must
///   decide about the line.
pub(super) fn quantity(value: &Value, pointer: &str) -> Option<u32> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => Some(1),
        Some(Value::String(text)) => pieces(text),
        Some(Value::Number(number)) => pieces(&number.to_string()),
        Some(_) => Some(0),
    }
}

/// Reads a number of pieces from a text, as [`quantity()`] does.
pub(super) fn pieces(text: &str) -> Option<u32> {
    let is_zero = |fraction: &str| !fraction.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    let whole = text.split_once('.').filter(|(_, fraction)| is_zero(fraction)).map_or(text, |(whole, _)| whole);
    let digits = Some(whole).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.map(str::parse::<u32>) {
        Some(Ok(0)) => None,
        Some(Ok(number)) => Some(number),
        Some(Err(_)) | None => Some(0),
    }
}

/// Returns the id at `pointer` of a product of this service. The id must be an integer, or decimal text without leading
/// zeros. Returns `None` for any other value.
pub(super) fn own(value: &Value, pointer: &str) -> Option<ProductId> {
    match value.pointer(pointer)? {
        Value::Number(number) => ProductId::new(number.as_i64()?).ok(),
        Value::String(text) => own_number(text),
        _ => None,
    }
}

/// Returns the id of a product of this service from an SKU such as `PROD-7`. Returns `None` for any other SKU.
pub(super) fn own_by_sku(value: &Value, pointer: &str) -> Option<ProductId> {
    own_number(text(value, pointer)?.strip_prefix(SKU)?)
}

fn own_number(text: &str) -> Option<ProductId> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_decimal.then(|| text.parse().ok()).flatten().and_then(|number| ProductId::new(number).ok())
}

/// Reads JSON into a [`Value`]. Refuses an object that has the same name twice, and values nested deeper than `depth`.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn inside<E: Error>(self) -> Result<Self, E> {
        self.depth.checked_sub(1).map(|depth| Self { depth }).ok_or_else(|| E::custom("nested too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (inside, mut list) = (self.inside()?, Vec::new());
        while let Some(item) = items.next_element_seed(inside)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let (inside, mut object) = (self.inside()?, Map::new());
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(inside)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_of_ours_is_an_integer_or_its_decimal_text() {
        for (field, expected) in [
            ("7", Some(7)),
            ("\"7\"", Some(7)),
            ("\"07\"", None),
            ("\"+7\"", None),
            ("\" 7\"", None),
            ("7.0", None),
            ("0", None),
            ("-7", None),
            ("\"0\"", None),
            ("\"9223372036854775808\"", None),
            ("null", None),
        ] {
            let value = object(format!(r#"{{"id":{field}}}"#).as_bytes()).unwrap();
            assert_eq!(own(&value, "/id").map(ProductId::get), expected, "{field}");
        }
        for (sku, expected) in [("PROD-7", Some(7)), ("PROD-07", None), ("prod-7", None), ("PROD-", None), ("7", None)]
        {
            let value = object(format!(r#"{{"sku":"{sku}"}}"#).as_bytes()).unwrap();
            assert_eq!(own_by_sku(&value, "/sku").map(ProductId::get), expected, "{sku}");
        }
    }

    #[test]
    fn times_are_read_as_platforms_write_them() {
        for (text, expected) in [
            ("2026-01-31T09:00:00.417000Z", Some("2026-01-31T09:00:00Z")),
            ("2026-01-31T10:00:00+01:00", Some("2026-01-31T09:00:00Z")),
            ("2026-01-31T09:00:00.123456789Z", Some("2026-01-31T09:00:00Z")),
            ("2026-01-31 09:00:00", Some("2026-01-31T09:00:00Z")),
            ("2026-01-31T09:00:00", Some("2026-01-31T09:00:00Z")),
            ("2026-02-30T09:00:00Z", None),
            ("2026-01-31", None),
            ("", None),
        ] {
            assert_eq!(instant(text), expected.map(|at| at.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn large_references_keep_their_digits() {
        let value = object(br#"{"id":820982911946154508,"text":"a","zero":0,"none":null,"part":1.5}"#).unwrap();
        assert_eq!(reference(&value, "/id").as_deref(), Some("820982911946154508"));
        assert_eq!(reference(&value, "/text").as_deref(), Some("a"));
        assert_eq!(reference(&value, "/zero").as_deref(), Some("0"));
        assert_eq!((reference(&value, "/none"), reference(&value, "/part")), (None, None));
    }

    #[test]
    fn a_line_of_no_pieces_is_none_and_one_of_a_fraction_waits() {
        for (field, expected) in [
            ("{}", Some(1)),
            (r#"{"q":null}"#, Some(1)),
            (r#"{"q":3}"#, Some(3)),
            (r#"{"q":"3"}"#, Some(3)),
            (r#"{"q":0}"#, None),
            (r#"{"q":"0"}"#, None),
            (r#"{"q":-1}"#, Some(0)),
            (r#"{"q":1.5}"#, Some(0)),
            (r#"{"q":"+3"}"#, Some(0)),
            (r#"{"q":""}"#, Some(0)),
            (r#"{"q":[]}"#, Some(0)),
            (r#"{"q":2.0}"#, Some(2)),
            (r#"{"q":"2.00"}"#, Some(2)),
            (r#"{"q":"2."}"#, Some(0)),
            (r#"{"q":99999999999}"#, Some(0)),
        ] {
            assert_eq!(quantity(&object(field.as_bytes()).unwrap(), "/q"), expected, "{field}");
        }
    }
}
