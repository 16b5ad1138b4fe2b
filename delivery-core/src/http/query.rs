//! Reading query parameters, the key of a call in the query or in a header, and the header `Idempotency-Key`.

use std::borrow::Cow;
use std::str::FromStr;

use ::http::header::{self, HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::fields::{Fault, integer};
use super::parameter::{FETCHED_PRODUCT, IDEMPOTENCY_KEY, KEY, MOST_ITEMS, Parameter};
use super::{Call, names};
use crate::ledger::RequestId;
use crate::product::ProductId;
use crate::text::Invalid;

const READABLE: Invalid = Invalid::expected("must be UTF-8 without control characters");
const ONE_KEY: &str = "Send the key once: as ?key=, as Authorization: Bearer, or as X-API-Key.";

/// Returns the value of a query parameter. Returns `None` if the parameter is absent or empty. It is an error if the
/// parameter occurs twice, or if its value is not UTF-8 or contains control characters.
pub(super) fn parameter<'a>(call: &'a Call, name: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    let mut found = None;
    for pair in call.query.as_deref().unwrap_or_default().split('&') {
        let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
        if raw_name != name && (is_plain(raw_name) || decoded(raw_name).is_none_or(|decoded| decoded != name)) {
            continue;
        }
        if found.is_some() {
            return Err(Fault::malformed(name, Invalid::expected("must come once")));
        }
        found = Some(if is_plain(raw_value) {
            Cow::Borrowed(raw_value)
        } else {
            let readable = decoded(raw_value).filter(|value| !value.chars().any(char::is_control));
            readable.ok_or_else(|| Fault::malformed(name, READABLE))?
        });
    }
    Ok(found.filter(|value| !value.is_empty()))
}

impl Parameter {
    /// Returns the value in the query. Returns `None` if the parameter is absent or empty.
    pub(super) fn text(self, call: &Call) -> Result<Option<Cow<'_, str>>, Fault> {
        parameter(call, self.name)
    }

    /// Returns the value in the query, parsed as `T`. Returns `None` if the parameter is absent or empty.
    pub(super) fn parsed<T: FromStr<Err = Invalid>>(self, call: &Call) -> Result<Option<T>, Fault> {
        let value = self.text(call)?.map(|text| text.parse());
        value.transpose().map_err(|expected| Fault::malformed(self.name, expected))
    }

    /// Returns the integer in the query, converted by `read`. Returns `None` if the parameter is absent or empty.
    pub(super) fn integer<T>(
        self,
        call: &Call,
        read: impl FnOnce(i64) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Fault> {
        self.text(call)?.map(|text| integer(self.name, &text, read)).transpose()
    }

    /// Returns the integer in the query, which must be 1 or more. A value above [`MOST_ITEMS`] counts as `MOST_ITEMS`,
    /// even if it does not fit in 64 bits. Returns `default` if the parameter is absent or empty.
    pub(super) fn count(self, call: &Call, default: usize) -> Result<usize, Fault> {
        const EXPECTED: Invalid = Invalid::expected("must be an integer of 1 or more");
        let Some(text) = self.text(call)? else { return Ok(default) };
        let in_range = |number: i64| if number >= 1 { Ok(number.min(MOST_ITEMS)) } else { Err(EXPECTED) };
        let is_long = text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        let number = if is_long { MOST_ITEMS } else { integer(self.name, &text, in_range)? };
        Ok(usize::try_from(number).unwrap_or(1))
    }
}

/// Returns whether a text needs no decoding, because it is printable ASCII without `%` and `+`. Most values are. The
/// loop does not stop at the first byte to decode, so that the compiler can make it check sixteen bytes at once.
fn is_plain(raw: &str) -> bool {
    raw.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'$' | b'&'..=b'*' | b','..=b'~'))
}

/// Returns the text of the key of a call. It can be in the query, in a bearer token or in `X-API-Key`. If it is in
/// several of these places, it must be the same in all of them.
pub(super) fn key(call: &Call) -> Result<Cow<'_, str>, Fault> {
    let mut keys = [KEY.text(call)?, bearer(&call.headers)?, api_key(&call.headers)?].into_iter().flatten();
    let key = keys.next().ok_or_else(|| Fault::missing(KEY.name))?;
    if keys.all(|other| other == key) { Ok(key) } else { Err(Fault::invalid(ONE_KEY)) }
}

/// The parameters of `/api/product`, without the key.
#[derive(Clone, Copy)]
pub(super) struct FetchParams {
    pub(super) product: ProductId,
    pub(super) request: Option<RequestId>,
}

/// Returns the text of the key and the other parameters of `/api/product`.
pub(super) fn asked(call: &Call) -> Result<(Cow<'_, str>, FetchParams), Fault> {
    let key = key(call)?;
    let product = FETCHED_PRODUCT.integer(call, ProductId::new)?;
    let product = product.ok_or_else(|| Fault::missing(FETCHED_PRODUCT.name))?;
    Ok((key, FetchParams { product, request: request(call)? }))
}

/// Returns the request id, which is a hash of `Idempotency-Key`, if the call has this header field.
fn request(call: &Call) -> Result<Option<RequestId>, Fault> {
    const EXPECTED: Invalid = Invalid::expected("must be 1 to 255 printable ASCII characters, once");
    let mut names = call.headers.get_all(&names::IDEMPOTENCY_KEY).iter();
    let Some(name) = names.next() else { return Ok(None) };
    // The draft standard of `Idempotency-Key` requires quotes around the value, but many clients send none.
    let name = name.as_bytes();
    let quoted = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\""));
    let name = quoted.unwrap_or(name);
    let is_printable = (1..=255).contains(&name.len()) && name.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if names.next().is_some() || !is_printable {
        return Err(Fault::malformed(IDEMPOTENCY_KEY.name, EXPECTED));
    }
    Ok(Some(RequestId::of(name)))
}

/// Returns the token of `Authorization: Bearer`. Returns `None` if the header field is absent, or if it has another
/// scheme or no token.
fn bearer(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, Fault> {
    let Some(value) = single(headers, &header::AUTHORIZATION)? else { return Ok(None) };
    let Some((scheme, token)) = value.split_once(' ') else { return Ok(None) };
    let token = token.trim_matches(' ');
    Ok((scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(Cow::Borrowed(token)))
}

fn api_key(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, Fault> {
    let value = single(headers, &names::API_KEY)?;
    Ok(value.filter(|value| !value.is_empty()).map(Cow::Borrowed))
}

/// Refuses a header field whose value is not visible ASCII. Code that reads the field as text would ignore such a
/// value, as if the request did not have the field.
pub(super) fn check_text(headers: &HeaderMap, name: &HeaderName) -> Result<(), Fault> {
    const EXPECTED: Invalid = Invalid::expected("must be visible ASCII");
    let is_text = headers.get_all(name).iter().all(|value| value.to_str().is_ok());
    if is_text { Ok(()) } else { Err(Fault::malformed(name.as_str(), EXPECTED)) }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Fault::invalid(ONE_KEY));
    }
    check_text(headers, name)?;
    Ok(value.to_str().ok())
}

/// Decodes `application/x-www-form-urlencoded` text. Returns `None` if the result is not UTF-8.
fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    let spaced = raw.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(|text| Cow::Owned(text.into_owned()))
}
