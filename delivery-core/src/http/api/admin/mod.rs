//! The seller's endpoints: `/api/admin/…`.

pub(in crate::http) mod email;
pub(in crate::http) mod export;
#[cfg(feature = "files")]
pub(in crate::http) mod files;
pub(in crate::http) mod inbox;
pub(in crate::http) mod keys;
pub(in crate::http) mod platform;
pub(in crate::http) mod posts;
pub(in crate::http) mod products;
pub(in crate::http) mod records;
mod refs;
pub(in crate::http) mod wire;

use std::time::Duration;

use chrono::{DateTime, Timelike, Utc};

use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::http::body::BodyRule;
use crate::http::describe::{EXPIRES_DAYS, Field, MAX_USES};
use crate::http::error::{Answering, ApiError};
use crate::http::fields::{Fault, Fields, integer};
use crate::http::proof::Seller;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::http::{Call, Reply, parameter};
use crate::key::Refusal;
use crate::limit::Policy;
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

/// Returns the table row of a command of the seller: an endpoint that changes something.
const fn command(
    path: &'static str,
    handler: for<'c> fn(&'c Delivery, Seller, Fields<'c>) -> Answering<'c>,
    openapi: Docs,
) -> Row {
    Row {
        path,
        verb: Verb::Post,
        // 30 seconds, because a body may have 2 MiB and the seller's connection may be slow.
        body: BodyRule::Read { limit: 2 << 20, deadline: Duration::from_secs(30) },
        limit: Some(Policy::Admin),
        cross_origin: false,
        handler: Handler::Seller(handler),
        codes: CHANGING,
        openapi,
    }
}

/// Returns the table row of a query of the seller: an endpoint with GET, such as a list.
const fn query(
    path: &'static str,
    codes: &'static [ErrorCode],
    handler: for<'c> fn(&'c Delivery, Seller, &'c Call) -> Answering<'c>,
    openapi: Docs,
) -> Row {
    Row {
        path,
        verb: Verb::Get,
        body: BodyRule::None,
        limit: Some(Policy::Admin),
        cross_origin: false,
        handler: Handler::SellerQuery(handler),
        codes,
        openapi,
    }
}

/// The error codes of a command. The order webhook has the same.
pub(in crate::http) const CHANGING: &[ErrorCode] = &[
    ErrorCode::MissingParams,
    ErrorCode::InvalidParams,
    ErrorCode::Unauthorized,
    ErrorCode::NotFound,
    ErrorCode::MethodNotAllowed,
    ErrorCode::PayloadTooLarge,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::RateLimited,
    ErrorCode::Internal,
    ErrorCode::Unavailable,
];

/// The error codes of a GET endpoint that has no required parameters. `NotFound` means that the store does not support
/// the endpoint.
const LISTING: &[ErrorCode] = &[
    ErrorCode::InvalidParams,
    ErrorCode::Unauthorized,
    ErrorCode::NotFound,
    ErrorCode::MethodNotAllowed,
    ErrorCode::RateLimited,
    ErrorCode::Internal,
    ErrorCode::Unavailable,
];

/// The error codes of a GET endpoint with a required parameter.
const NEEDING: &[ErrorCode] = &[
    ErrorCode::MissingParams,
    ErrorCode::InvalidParams,
    ErrorCode::Unauthorized,
    ErrorCode::NotFound,
    ErrorCode::MethodNotAllowed,
    ErrorCode::RateLimited,
    ErrorCode::Internal,
    ErrorCode::Unavailable,
];

/// The error codes of a GET endpoint that has no required parameters and works with every store. `NotFound` is not
/// among the codes: it would mean that a record is missing, or that the store does not support the endpoint.
const FINDING: &[ErrorCode] = &[
    ErrorCode::InvalidParams,
    ErrorCode::Unauthorized,
    ErrorCode::MethodNotAllowed,
    ErrorCode::RateLimited,
    ErrorCode::Internal,
    ErrorCode::Unavailable,
];

/// Returns the reply to a command: success if the record was found, or a 404 if no record has the given id.
fn done(is_found: bool) -> Result<Reply, ApiError> {
    if is_found { Ok(Reply::json(&wire::Done::new())) } else { Err(ApiError::NOT_FOUND) }
}

/// Returns the parameter `limit`: the maximum number of items that the list returns at once.
fn page_size(call: &Call) -> Result<usize, Fault> {
    parameter::PAGE_SIZE.count(call, parameter::DEFAULT_ITEMS)
}

/// Returns the parameter `before` of a list, which is a row number; `None` for the first page. The page contains only
/// rows with smaller numbers. Clients copy the value from `next` of the previous page and need not know its meaning.
fn before(call: &Call) -> Result<Option<i64>, Fault> {
    let Some(text) = parameter::BEFORE.text(call)? else { return Ok(None) };
    let made_up = |_| Fault::malformed(parameter::BEFORE.name, MADE_UP);
    integer(parameter::BEFORE.name, &text, Ok).map(Some).map_err(made_up)
}

const MADE_UP: Invalid = Invalid::expected("must be what next said");

/// Parses an id that is the number of a row in the store, such as the id of a message. `text` is the value of `field`.
fn number(field: Field, text: &str) -> Result<i64, Fault> {
    const EXPECTED: Invalid = Invalid::expected("must be an id from a list");
    integer(field.name, text, Ok).map_err(|_| Fault::malformed(field.name, EXPECTED))
}

/// Converts an error into a reply for the seller. The reply explains details that a reply to a buyer does not reveal.
fn explained(error: Error) -> ApiError {
    let refused = |message: &'static str| Fault::invalid(message).into();
    match error {
        Error::UnknownKey | Error::UnknownProduct => ApiError::NOT_FOUND,
        Error::Refused { refusal: Refusal::NoLimit, .. } => {
            refused("add_uses is for a key with a limit, and this one has none.")
        }
        Error::Refused { refusal: Refusal::NoAddress, .. } => {
            refused("The buyer was erased: there is no address to send to. Say customer_email.")
        }
        Error::Refused { refusal: Refusal::Replaced { .. }, .. } => {
            refused("The key was rotated: another one took its place, and it cannot be restored.")
        }
        Error::Refused { refusal: Refusal::Revoked { .. }, .. } => refused("The key is revoked."),
        error => error.into(),
    }
}

/// Reads how long a key is valid from the field `expires_days`, and how often it can be used from `max_uses`.
fn terms(fields: &Fields<'_>) -> Result<OwnTerms, Fault> {
    Ok(OwnTerms {
        validity: fields.integer(EXPIRES_DAYS, Validity::from_days)?,
        limit: fields.integer(MAX_USES, UseLimit::from_count)?,
    })
}

/// Returns the time in a field, which must be an RFC 3339 timestamp from 1970 to 9999. The time is cut to whole
/// seconds. Returns `None` if the field is absent, or if its value is `null` or `""`.
fn timestamp_of(fields: &Fields<'_>, field: Field) -> Result<Option<DateTime<Utc>>, Fault> {
    const EXPECTED: Invalid =
        Invalid::expected("must be an RFC 3339 timestamp from 1970 to 9999, such as 2026-11-21T10:00:00Z");
    let Some(text) = fields.text_of(field)? else { return Ok(None) };
    let at = DateTime::parse_from_rfc3339(&text).map_err(|_| Fault::malformed(field.name, EXPECTED))?.to_utc();
    // Drop the fraction of a second, and a leap second. If they were kept, this reply and a later list could show
    // different times.
    let at = at.with_nanosecond(0).unwrap_or(at);
    let writable = (DateTime::UNIX_EPOCH..=crate::terms::NEVER).contains(&at);
    writable.then_some(Some(at)).ok_or_else(|| Fault::malformed(field.name, EXPECTED))
}
