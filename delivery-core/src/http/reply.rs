//! An answer as a value.

use std::fmt;

use ::http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;

use super::fields::Fault;
use super::wire;
use crate::delivery::Error;
use crate::error::ErrorCode;
use crate::store::StoreError;

/// How long to wait before asking a service again that was not available: long enough for a restart.
const RETRY_UNAVAILABLE: u64 = 5;

/// An answer: status, headers, bytes. `Debug` shows the status alone, since bodies hold keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl Reply {
    /// The answer to a path below `/api/` that is no endpoint.
    #[must_use]
    pub fn not_found() -> Self {
        Self::error(ErrorCode::NotFound)
    }

    /// The answer to a request whose handling panicked or failed in the host.
    #[must_use]
    pub fn internal() -> Self {
        Self::error(ErrorCode::Internal)
    }

    /// The answer while the service cannot answer, with `Retry-After`.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::error(ErrorCode::Unavailable).retry_after(RETRY_UNAVAILABLE)
    }

    /// The answer to a use case that failed: for routes of the host's own. Faults of ours are logged, not shown.
    #[must_use]
    pub fn failure(error: &Error) -> Self {
        let code = error.code();
        let reply = match code {
            ErrorCode::Unavailable => {
                tracing::warn!(error = error as &dyn std::error::Error, "a request was answered 503");
                Self::unavailable()
            }
            ErrorCode::Internal => {
                tracing::error!(error = error as &dyn std::error::Error, "a request was answered 500");
                Self::internal()
            }
            ErrorCode::InvalidKey => Self::error(code).challenge(),
            code => Self::error(code),
        };
        reply.confidential()
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The header fields; `Content-Length` is the framework's to add.
    #[must_use]
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The answer as the `http` crate's type.
    #[must_use]
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }

    pub(super) fn json(body: &impl serde::Serialize) -> Self {
        Self::encoded(wire::encode(body))
    }

    pub(super) fn encoded(body: Bytes) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self { status: StatusCode::OK, headers: vec![(header::CONTENT_TYPE, json)], body }
    }

    pub(super) fn error(code: ErrorCode) -> Self {
        Self::json(&wire::Failure::new(code, code.message())).with_status(code)
    }

    pub(super) fn with_status(self, code: ErrorCode) -> Self {
        Self { status: StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), ..self }
    }

    pub(super) fn allow(self, method: &Method) -> Self {
        let allowed = if *method == Method::GET { "GET, HEAD" } else { "POST" };
        self.header(header::ALLOW, HeaderValue::from_static(allowed))
    }

    /// What is asked for, by RFC 9110, 11.6.1.
    pub(super) fn challenge(self) -> Self {
        self.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    pub(super) fn retry_after(self, seconds: u64) -> Self {
        self.header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// Kept by no cache, and not told to where a link in it leads.
    pub(super) fn confidential(self) -> Self {
        self.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
            .header(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
    }

    /// For HEAD: the length of the body it stands for, and no body.
    pub(super) fn without_body(self) -> Self {
        let length = HeaderValue::from(self.body.len());
        Self { body: Bytes::new(), ..self.header(header::CONTENT_LENGTH, length) }
    }

    /// `value` is put together from our own names and numbers, which are all visible ASCII.
    pub(super) fn text_header(self, name: &'static str, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => self.header(HeaderName::from_static(name), value),
            Err(_) => self,
        }
    }

    /// Sets a field; the last value counts.
    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.retain(|(set, _)| *set != name);
        self.headers.push((name, value));
        self
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self::json(&wire::Failure::new(fault.code(), fault.message())).with_status(fault.code())
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::failure(&error)
    }
}

impl From<StoreError> for Reply {
    fn from(error: StoreError) -> Self {
        Self::failure(&error.into())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).finish_non_exhaustive()
    }
}
