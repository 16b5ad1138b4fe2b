//! Reading the values that a client sent. Whether a value is missing, malformed or valid follows the same rules in a
//! query and in JSON.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use ::http::header;
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Call;
use super::body::Body;
use super::describe::Field;
use crate::error::ErrorCode;
use crate::text::Invalid;

/// An error in a request: a code, and a message for the client. The message may name the field that is wrong, but never
/// contains the field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    code: ErrorCode,
    message: Cow<'static, str>,
}

impl Fault {
    pub(super) fn missing(field: &str) -> Self {
        Self { code: ErrorCode::MissingParams, message: format!("{field} is missing.").into() }
    }

    pub(super) fn malformed(field: &str, expected: Invalid) -> Self {
        Self { code: ErrorCode::InvalidParams, message: format!("{field} {expected}.").into() }
    }

    pub(super) fn invalid(message: &'static str) -> Self {
        Self { code: ErrorCode::InvalidParams, message: message.into() }
    }

    /// Returns the error code of the reply.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the message for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: code.message().into() }
    }
}

/// The fields of a JSON body: each name with its value as unparsed JSON text.
pub(super) struct Fields<'a> {
    members: Members<&'a RawValue>,
    /// The fields that the endpoint's row in the [table](super::table) describes. A handler reads no other fields.
    described: &'static [Field],
}

/// The members of a JSON object, in the order in which they were sent. It is an error if a name occurs twice in the
/// object.
pub(super) struct Members<T>(pub(super) Vec<(String, T)>);

impl<'a> Fields<'a> {
    /// Returns the bytes of a JSON body. It is an error if the body was not read completely, or if the headers of
    /// `call` do not declare JSON.
    pub(super) fn text(call: &Call, body: &'a Body) -> Result<&'a [u8], Fault> {
        let bytes = whole(body)?;
        if is_json(call) { Ok(bytes) } else { Err(ErrorCode::UnsupportedMediaType.into()) }
    }

    /// Parses a body, which must be one JSON object without duplicate names. A byte order mark at the start of the body
    /// is skipped. `described` are the fields that the endpoint's row in the [table](super::table) describes.
    pub(super) fn parse(body: &'a [u8], described: &'static [Field]) -> Result<Self, Fault> {
        const EXPECTED: &str = "The body must be one JSON object in which no name comes twice.";
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let text = std::str::from_utf8(body).map_err(|_| Fault::invalid(EXPECTED))?;
        let members = serde_json::from_str(text).map_err(|_| Fault::invalid(EXPECTED))?;
        Ok(Self { members, described })
    }

    /// Returns the string in a field. Returns `None` if the field is absent, or if its value is `null` or `""`.
    pub(super) fn text_of(&self, field: Field) -> Result<Option<String>, Fault> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        let text: String = serde_json::from_str(raw.get())
            .map_err(|_| Fault::malformed(field.name, Invalid::expected("must be a string")))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Returns the string in a field, which may be `""`. Returns `None` if the field is absent, or if its value is
    /// `null`.
    pub(super) fn given_text(&self, field: Field) -> Result<Option<String>, Fault> {
        let is_given = self.raw(field).is_some();
        Ok(self.text_of(field)?.or_else(|| is_given.then(String::new)))
    }

    pub(super) fn required_text(&self, field: Field) -> Result<String, Fault> {
        self.text_of(field)?.ok_or_else(|| Fault::missing(field.name))
    }

    /// Returns the string in a field, parsed as `T`. Returns `None` if the field is absent, or if its value is `null`
    /// or `""`.
    pub(super) fn parsed<T: std::str::FromStr<Err = Invalid>>(&self, field: Field) -> Result<Option<T>, Fault> {
        self.text_of(field)?
            .map(|text| text.parse())
            .transpose()
            .map_err(|expected| Fault::malformed(field.name, expected))
    }

    /// Returns the integer in a field, converted by `read`. Returns `None` if the field is absent, or if its value is
    /// `null`.
    pub(super) fn integer<T>(
        &self,
        field: Field,
        read: impl FnOnce(i64) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Fault> {
        self.raw(field).map(|raw| integer(field.name, raw.get(), read)).transpose()
    }

    /// Returns the number in a field, parsed as `T`. `T` parses the digits that the client wrote, so the number is
    /// never rounded to a float. Returns `None` if the field is absent, or if its value is `null`.
    pub(super) fn number<T: std::str::FromStr<Err = Invalid>>(&self, field: Field) -> Result<Option<T>, Fault> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        let written = raw.get();
        if !written.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return Err(Fault::malformed(field.name, Invalid::expected("must be a number")));
        }
        written.parse().map(Some).map_err(|expected| Fault::malformed(field.name, expected))
    }

    pub(super) fn boolean(&self, field: Field) -> Result<Option<bool>, Fault> {
        let read = |raw: &RawValue| serde_json::from_str(raw.get());
        let value = self.raw(field).map(read).transpose();
        value.map_err(|_| Fault::malformed(field.name, Invalid::expected("must be true or false")))
    }

    /// Returns the value of a field, deserialized as `T`. Returns `None` if the field is absent, or if its value is
    /// `null`. If the value is not a `T`, the error message contains `expected`.
    pub(super) fn value<T: serde::de::DeserializeOwned>(
        &self,
        field: Field,
        expected: Invalid,
    ) -> Result<Option<T>, Fault> {
        let read = |raw: &RawValue| serde_json::from_str(raw.get());
        self.raw(field).map(read).transpose().map_err(|_| Fault::malformed(field.name, expected))
    }

    /// Returns whether the value of a field is `null`.
    pub(super) fn clears(&self, field: Field) -> bool {
        self.given(field).is_some_and(|raw| raw.get() == "null")
    }

    fn raw(&self, field: Field) -> Option<&'a RawValue> {
        self.given(field).filter(|raw| raw.get() != "null")
    }

    fn given(&self, field: Field) -> Option<&'a RawValue> {
        let is_described = self.described.iter().any(|described| described.name == field.name);
        debug_assert!(is_described, "the row does not describe the field {}", field.name);
        self.members.0.iter().find(|(name, _)| name == field.name).map(|(_, raw)| *raw)
    }
}

/// Returns the bytes of a body. If the body was not read completely, returns the error that says why.
pub(super) fn whole(body: &Body) -> Result<&Bytes, Fault> {
    match body {
        Body::Complete(bytes) => Ok(bytes),
        Body::TooLarge => Err(ErrorCode::PayloadTooLarge.into()),
        Body::GaveWay => Err(ErrorCode::Unavailable.into()),
        Body::Broken => Err(Fault::invalid("The body is incomplete, or is not framed as HTTP requires.")),
        Body::Late => Err(Fault::invalid("The body did not come in time.")),
    }
}

/// Parses an integer, and converts it with `read`. The same rules apply in JSON and in a query: the text consists of
/// digits without leading zeros, and may begin with `-`.
pub(super) fn integer<T>(field: &str, text: &str, read: impl FnOnce(i64) -> Result<T, Invalid>) -> Result<T, Fault> {
    const EXPECTED: Invalid = Invalid::expected("must be an integer");
    const OUT_OF_RANGE: Invalid = Invalid::expected("must be an integer of at most 64 bits");
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if !canonical {
        return Err(Fault::malformed(field, EXPECTED));
    }
    let number = text.parse().map_err(|_| Fault::malformed(field, OUT_OF_RANGE))?;
    read(number).map_err(|expected| Fault::malformed(field, expected))
}

/// Returns whether the headers declare JSON. The `Content-Type` must be `application/json`, with no parameter other
/// than `charset`. A charset must be UTF-8. There must be no content coding other than `identity`.
fn is_json(call: &Call) -> bool {
    let one = |name| {
        let mut values = call.headers.get_all(name).iter();
        let first = values.next().and_then(|value| value.to_str().ok());
        first.filter(|_| values.next().is_none())
    };
    if call.headers.contains_key(header::CONTENT_ENCODING)
        && !one(header::CONTENT_ENCODING).is_some_and(|coding| coding.trim().eq_ignore_ascii_case("identity"))
    {
        return false;
    }
    let Some(content_type) = one(header::CONTENT_TYPE) else { return false };
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    essence
        && parts.filter(|parameter| !parameter.is_empty()).all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                let charset = value.trim().trim_matches('"');
                ["utf-8", "utf8"].iter().any(|utf_8| charset.eq_ignore_ascii_case(utf_8))
            }
            _ => false,
        })
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                let mut names = HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom("a name comes twice"));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_no_utf_8_is_refused() {
        assert!(Fields::parse(b"{\"a\":\"\xff\"}", &[]).is_err());
    }
}
