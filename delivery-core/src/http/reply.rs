//! An answer as a value.

use std::borrow::Cow;
use std::error::Error as Cause;
use std::fmt;
use std::sync::Arc;

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;

use super::api::wire;
use super::fields::Fault;
use super::names;
use super::pieces::ReplyBody;
use crate::delivery::Error;
use crate::error::ErrorCode;
use crate::store::StoreError;
use crate::throttle::Throttle;

/// How long to wait before asking a service again that was not available: long enough for a restart.
const RETRY_UNAVAILABLE: u64 = 5;
/// Fields of a usual answer.
const HEADERS: usize = 6;
/// A header map with a larger capacity came from an unusual request. It is not reused, because it would stay allocated
/// as long as the connection.
const ROOMY: usize = 64;

/// An answer: status, headers, bytes. `Debug` shows the status alone, since bodies hold keys.
#[derive(Clone)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(&'static HeaderName, HeaderValue)>,
    body: Bytes,
    /// What follows, some of it shared with other answers.
    rest: Vec<Bytes>,
    /// Length of the body in bytes. An answer to HEAD keeps it although it has no body.
    length: usize,
    /// Why it is a 500 or a 503, until that is logged.
    fault: Option<Arc<dyn Cause + Send + Sync>>,
}

impl Reply {
    /// The answer to a path below `/api/` that is no endpoint.
    #[must_use]
    pub fn not_found() -> Self {
        Self::error(ErrorCode::NotFound)
    }

    /// The answer to a request that no endpoint can make sense of, with a sentence that says why.
    #[must_use]
    pub fn bad_request(message: &'static str) -> Self {
        Self::json(&wire::Error::new(ErrorCode::InvalidParams, message)).with_status(ErrorCode::InvalidParams)
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

    /// Converts the error of a use case into an answer, for the host's own routes. Internal errors are logged, but not
    /// shown.
    #[must_use]
    pub fn failure(error: &Error) -> Self {
        Self::from(error.clone()).report(None).confidential()
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The header fields; each name occurs once. `Content-Length` is present only for HEAD; otherwise the framework
    /// adds it.
    #[must_use]
    pub fn headers(&self) -> &[(&'static HeaderName, HeaderValue)] {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Cow<'_, [u8]> {
        match &*self.rest {
            [] => Cow::Borrowed(&self.body),
            rest => Cow::Owned([std::slice::from_ref(&self.body), rest].concat().concat()),
        }
    }

    /// The length to send as `Content-Length`, in bytes. For HEAD it is the length of the body that GET would send.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The body alone.
    #[must_use]
    pub fn into_body(self) -> ReplyBody {
        ReplyBody::new(std::iter::once(self.body).chain(self.rest))
    }

    /// The answer as the `http` crate's type.
    #[must_use]
    pub fn into_response(self) -> Response<ReplyBody> {
        self.into_response_in(HeaderMap::new())
    }

    /// Like [`into_response`](Self::into_response), but reuses the allocation of `headers`, whose fields are discarded.
    /// A server passes the request's header map, which it would otherwise drop while allocating another one.
    #[must_use]
    pub fn into_response_in(self, mut headers: HeaderMap) -> Response<ReplyBody> {
        headers.clear();
        if headers.capacity() > ROOMY {
            headers = HeaderMap::new();
        }
        // A server adds some.
        headers.reserve(self.headers.len() + 4);
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        let mut response = Response::new(ReplyBody::new(std::iter::once(self.body).chain(self.rest)));
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }

    pub(super) fn json(body: &impl serde::Serialize) -> Self {
        Self::encoded(wire::encode(body))
    }

    pub(super) fn encoded(body: Bytes) -> Self {
        let mut headers = Vec::with_capacity(HEADERS);
        headers.push((&names::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        let length = body.len();
        Self { status: StatusCode::OK, headers, body, rest: Vec::new(), length, fault: None }
    }

    /// Something else than JSON.
    #[cfg(feature = "pages")]
    pub(super) fn text(kind: &'static str, body: Bytes) -> Self {
        let length = body.len();
        let headers = vec![(&names::CONTENT_TYPE, HeaderValue::from_static(kind))];
        Self { status: StatusCode::OK, headers, body, rest: Vec::new(), length, fault: None }
    }

    /// The same answer, as a page.
    #[cfg(feature = "pages")]
    pub(super) fn with_html(self, html: String) -> Self {
        let (length, body) = (html.len(), Bytes::from(html));
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        Self { body, rest: Vec::new(), length, ..self.header(&names::CONTENT_TYPE, kind) }
    }

    /// The same answer, followed by this.
    #[cfg(feature = "pages")]
    pub(super) fn followed_by(mut self, rest: Vec<Bytes>) -> Self {
        self.length += rest.iter().map(Bytes::len).sum::<usize>();
        Self { rest, ..self }
    }

    /// Sends the browser on, to be asked for by GET.
    #[cfg(feature = "pages")]
    pub(super) fn see_other(path: &str) -> Self {
        let reply = Self::text("text/plain; charset=utf-8", Bytes::new()).with_code(StatusCode::SEE_OTHER);
        let reply = reply.header(&names::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let reply = reply.header(&names::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        reply.text_header(&names::LOCATION, path)
    }

    #[cfg(feature = "pages")]
    pub(super) fn cookie(self, cookie: &str) -> Self {
        self.text_header(&names::SET_COOKIE, cookie)
    }

    #[cfg(feature = "pages")]
    pub(super) fn with_code(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    #[cfg(feature = "pages")]
    pub(super) fn with_header(self, name: &'static HeaderName, value: HeaderValue) -> Self {
        self.header(name, value)
    }

    /// Whether it is an answer of the API.
    #[cfg(feature = "pages")]
    pub(super) fn is_json(&self) -> bool {
        self.headers.iter().any(|(name, value)| **name == names::CONTENT_TYPE && value == "application/json")
    }

    pub(super) fn error(code: ErrorCode) -> Self {
        Self::json(&wire::Error::new(code, code.message())).with_status(code)
    }

    /// The answer to a request whose handler panicked. The panic hook has already reported the panic message.
    pub(super) fn panicked() -> Self {
        Self::internal().because("the handling of a request panicked")
    }

    /// Attaches the cause of a failure, for the log.
    pub(super) fn because(self, fault: impl Into<Box<dyn Cause + Send + Sync>>) -> Self {
        Self { fault: Some(Arc::from(fault.into())), ..self }
    }

    /// Whether the answer has a cause that was not logged yet.
    pub(super) fn is_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Logs the cause of the answer: at most one line per second for each status, since one cause may fail thousands of
    /// requests.
    pub(super) fn report(mut self, request: Option<&str>) -> Self {
        static UNAVAILABLE: Throttle = Throttle::new();
        static INTERNAL: Throttle = Throttle::new();
        if let Some(fault) = self.fault.take() {
            let error = fault.as_ref() as &dyn Cause;
            if self.status == StatusCode::SERVICE_UNAVAILABLE {
                if let Some(more) = UNAVAILABLE.admit() {
                    tracing::warn!(request, error, more, "a request was answered 503");
                }
            } else if let Some(more) = INTERNAL.admit() {
                tracing::error!(request, error, more, "a request was answered 500");
            }
        }
        self
    }

    pub(super) fn with_status(self, code: ErrorCode) -> Self {
        Self { status: StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), ..self }
    }

    pub(super) fn allow(self, allowed: &'static str) -> Self {
        self.header(&names::ALLOW, HeaderValue::from_static(allowed))
    }

    /// What is asked for, by RFC 9110, 11.6.1.
    pub(super) fn challenge(self) -> Self {
        self.header(&names::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    pub(super) fn retry_after(self, seconds: u64) -> Self {
        self.header(&names::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// Forbids caching the answer, and sending its URL as `Referer` when a link in it is followed.
    pub(super) fn confidential(self) -> Self {
        self.header(&names::CACHE_CONTROL, HeaderValue::from_static("no-store"))
            .header(&names::REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
    }

    /// Converts the answer for HEAD: drops the body, and sends its length.
    pub(super) fn without_body(self) -> Self {
        let length = HeaderValue::from(self.length);
        Self { body: Bytes::new(), rest: Vec::new(), ..self.header(&names::CONTENT_LENGTH, length) }
    }

    /// `value` is put together from our own names and numbers, which are all visible ASCII.
    pub(super) fn text_header(self, name: &'static HeaderName, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => self.header(name, value),
            Err(_) => self,
        }
    }

    /// Sets a field; the last value counts.
    fn header(mut self, name: &'static HeaderName, value: HeaderValue) -> Self {
        match self.headers.iter_mut().find(|(set, _)| *set == name) {
            Some((_, set)) => *set = value,
            None => self.headers.push((name, value)),
        }
        self
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        if fault.code() == ErrorCode::Unavailable {
            return Self::unavailable();
        }
        Self::json(&wire::Error::new(fault.code(), fault.message())).with_status(fault.code())
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        match error.code() {
            ErrorCode::Unavailable => Self::unavailable().because(error),
            ErrorCode::Internal => Self::internal().because(error),
            ErrorCode::InvalidKey => Self::error(ErrorCode::InvalidKey).challenge(),
            code => Self::error(code),
        }
    }
}

impl From<StoreError> for Reply {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).finish_non_exhaustive()
    }
}
