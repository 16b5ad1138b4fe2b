//! The types of error replies.

use serde::Serialize;

use super::key::Status;
use crate::error::ErrorCode;
use crate::key::{Denied, Key};

/// An error.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Error<'a> {
    /// `false` if `GET /api/validate` finds that the key is not valid; absent in all other errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    valid: Option<bool>,
    error: Problem<'a>,
}

impl<'a> Error<'a> {
    pub(in crate::http) fn new(code: ErrorCode, message: &'a str) -> Self {
        Self { valid: None, error: Problem { code: code.as_str(), message } }
    }

    /// Creates the error for a use that a rule of the host application does not allow.
    pub(in crate::http) fn denied(denied: &'a Denied) -> Self {
        Self { valid: None, error: Problem::denied(denied) }
    }

    /// Creates an error that also contains `"valid":false`, for clients that read `valid` and not the HTTP status.
    pub(in crate::http) fn not_valid(code: ErrorCode) -> Self {
        Self { valid: Some(false), ..Self::new(code, code.message()) }
    }
}

/// The error of `GET /api/validate` for a key that is expired, exhausted, or refused by a rule of the host application.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct RefusedKey<'a> {
    valid: bool,
    error: Problem<'a>,
    #[serde(flatten)]
    status: Status,
}

impl<'a> RefusedKey<'a> {
    /// Creates the error. If a rule of the host application refused the key, the error has the code and the message of
    /// the rule.
    pub(in crate::http) fn of(code: ErrorCode, denied: Option<&'a Denied>, key: &Key) -> Self {
        Self { valid: false, error: Problem::of(code, denied), status: Status::of(key) }
    }
}

/// What is wrong: a code for programs, and a sentence for people.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Problem<'a> {
    /// One of the codes that are listed for the endpoint, or a code of the host application. Every code consists of `A`
    /// to `Z` and `_`.
    code: &'static str,
    message: &'a str,
}

impl<'a> Problem<'a> {
    fn of(code: ErrorCode, denied: Option<&'a Denied>) -> Self {
        denied.map_or(Self { code: code.as_str(), message: code.message() }, Self::denied)
    }

    pub(in crate::http) fn denied(denied: &'a Denied) -> Self {
        Self { code: denied.code(), message: denied.sentence() }
    }
}
