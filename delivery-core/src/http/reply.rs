//! A response, independent of any web framework.

use std::borrow::Cow;
use std::error::Error as Cause;
use std::fmt;
use std::sync::Arc;

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;

use super::api::wire;
use super::names;
use super::pieces::{ReplyBody, Sent, Streamed};
use crate::error::ErrorCode;
use crate::throttle::log_seldom;

/// The value of `Retry-After` in 503 replies, in seconds. The service can usually restart in this time.
pub(super) const RETRY_UNAVAILABLE: u64 = 5;
/// The number of header fields for which a new reply has room. Most replies need no more.
const HEADERS: usize = 6;
/// The maximum capacity of a header map, in fields, that [`Reply::into_response_in`] reuses. A map with a larger
/// capacity is not reused, because its memory could stay allocated until the connection is closed.
const ROOMY: usize = 64;

/// A response: status, headers and body. `Debug` shows only the status, because bodies contain keys.
#[derive(Clone)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(&'static HeaderName, HeaderValue)>,
    body: Bytes,
    /// The parts of the response body that follow `body`, in order. Other replies may share their memory.
    rest: Vec<Bytes>,
    /// The stream that is the whole body. `body` and `rest` are then empty.
    stream: Option<Sent>,
    /// The length of the whole body in bytes, if it is known. In a reply to HEAD, this is the length of the body that
    /// GET would send.
    length: Option<u64>,
    /// The cause of a 500 or a 503. It is removed when it is logged.
    fault: Option<Arc<dyn Cause + Send + Sync>>,
}

impl Reply {
    /// Returns the 404 reply with a JSON body, for example for a path below `/api/` that is not an endpoint.
    #[must_use]
    pub fn not_found() -> Self {
        Self::error(ErrorCode::NotFound)
    }

    /// Returns a 400 `INVALID_PARAMS` whose message explains what is wrong with the request.
    #[must_use]
    pub fn bad_request(message: &'static str) -> Self {
        Self::json(&wire::Error::new(ErrorCode::InvalidParams, message)).with_status(ErrorCode::InvalidParams)
    }

    /// Returns the 500 reply for a request that the host application could not handle: its code panicked or failed.
    #[must_use]
    pub fn internal() -> Self {
        Self::error(ErrorCode::Internal)
    }

    /// Returns the 503 reply, with `Retry-After`, for a service that is temporarily unavailable.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::error(ErrorCode::Unavailable).retry_after(RETRY_UNAVAILABLE)
    }

    /// Returns the status code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the header fields. Each name occurs once. `Content-Length` is present only in a reply to HEAD. For other
    /// methods, the framework adds it.
    #[must_use]
    pub fn headers(&self) -> &[(&'static HeaderName, HeaderValue)] {
        &self.headers
    }

    /// Returns the whole body. Copies the body if it consists of several pieces. If the body is a stream, returns no
    /// bytes.
    #[must_use]
    pub fn body(&self) -> Cow<'_, [u8]> {
        match &*self.rest {
            [] => Cow::Borrowed(&self.body),
            rest => Cow::Owned([std::slice::from_ref(&self.body), rest].concat().concat()),
        }
    }

    /// Returns the value for `Content-Length`, in bytes. For HEAD this is the length of the body that GET would send.
    /// Returns `None` if the body is a stream of unknown length, and for 304.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns whether the body is a stream, such as the bytes of a file, which is read while it is sent.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.stream.is_some()
    }

    /// Converts the reply into its body, for a server that sends status and headers itself.
    #[must_use]
    pub fn into_body(self) -> ReplyBody {
        match &self.stream {
            Some(stream) => ReplyBody::of_stream(stream, self.length),
            // A 304, or the reply to HEAD for a stream of unknown length.
            None if self.length.is_none() => ReplyBody::default(),
            None => ReplyBody::new(std::iter::once(self.body).chain(self.rest)),
        }
    }

    /// Converts the reply into a response of the `http` crate.
    #[must_use]
    pub fn into_response(self) -> Response<ReplyBody> {
        self.into_response_in(HeaderMap::new())
    }

    /// Like [`into_response`](Self::into_response), but reuses the allocation of `headers`, whose fields are discarded.
    /// A server can pass the request's header map, so that the response needs no new one.
    #[must_use]
    pub fn into_response_in(self, mut headers: HeaderMap) -> Response<ReplyBody> {
        headers.clear();
        if headers.capacity() > ROOMY {
            headers = HeaderMap::new();
        }
        // Leave room for the fields that the server adds.
        headers.reserve(self.headers.len() + 4);
        for (name, value) in &self.headers {
            headers.insert(*name, value.clone());
        }
        let status = self.status;
        let mut response = Response::new(self.into_body());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    pub(super) fn json(body: &impl serde::Serialize) -> Self {
        Self::encoded(wire::encode(body))
    }

    pub(super) fn encoded(body: Bytes) -> Self {
        let mut headers = Vec::with_capacity(HEADERS);
        headers.push((&names::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        let length = Some(body.len() as u64);
        Self { status: StatusCode::OK, headers, body, rest: Vec::new(), stream: None, length, fault: None }
    }

    /// Returns a reply without a body.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
            rest: Vec::new(),
            stream: None,
            length: Some(0),
            fault: None,
        }
    }

    /// Returns a 304 reply. It has no `Content-Length`: RFC 9110, section 8.6, permits only the length of the 200 reply
    /// as the value.
    #[cfg(feature = "files")]
    pub(super) fn not_modified() -> Self {
        Self { length: None, ..Self::empty(StatusCode::NOT_MODIFIED) }
    }

    /// Returns the reply with `length` bytes of a file as its body.
    #[cfg(feature = "files")]
    pub(super) fn streaming(self, contents: crate::files::Contents, length: u64) -> Self {
        Self { length: Some(length), ..self.streamed(contents) }
    }

    /// Replaces the body with a stream of unknown length.
    pub(super) fn streamed(self, stream: Streamed) -> Self {
        Self { body: Bytes::new(), rest: Vec::new(), stream: Some(Sent::new(stream)), length: None, ..self }
    }

    /// Returns the reply to HEAD for a body of this length.
    #[cfg(feature = "files")]
    pub(super) fn of_length(self, length: u64) -> Self {
        Self { length: Some(length), ..self }
    }

    /// Returns a 200 reply whose body has the `Content-Type` `kind`.
    #[cfg(feature = "pages")]
    pub(super) fn text(kind: &'static str, body: Bytes) -> Self {
        let length = Some(body.len() as u64);
        let headers = vec![(&names::CONTENT_TYPE, HeaderValue::from_static(kind))];
        Self { status: StatusCode::OK, headers, body, rest: Vec::new(), stream: None, length, fault: None }
    }

    /// Replaces the body with an HTML page.
    #[cfg(feature = "pages")]
    pub(super) fn with_html(self, html: String) -> Self {
        let (length, body) = (Some(html.len() as u64), Bytes::from(html));
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        Self { body, rest: Vec::new(), length, ..self.header(&names::CONTENT_TYPE, kind) }
    }

    /// Appends `rest` to the body. Call this at most once for a reply, because a second call would discard the `rest`
    /// of the first.
    #[cfg(any(feature = "files", feature = "pages"))]
    pub(super) fn followed_by(self, rest: Vec<Bytes>) -> Self {
        let more: u64 = rest.iter().map(|piece| piece.len() as u64).sum();
        Self { rest, length: self.length.map(|length| length + more), ..self }
    }

    /// Returns a 303 redirect, which the browser follows with GET.
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
    pub(super) fn sets_cookie(&self) -> bool {
        self.headers.iter().any(|(name, _)| **name == names::SET_COOKIE)
    }

    #[cfg(feature = "pages")]
    pub(super) fn with_code(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn with_header(self, name: &'static HeaderName, value: HeaderValue) -> Self {
        self.header(name, value)
    }

    /// Returns whether this is a 4xx or 5xx reply whose body is JSON.
    #[cfg(feature = "pages")]
    pub(super) fn is_json_error(&self) -> bool {
        let is_error = self.status.is_client_error() || self.status.is_server_error();
        is_error
            && self.headers.iter().any(|(name, value)| **name == names::CONTENT_TYPE && value == "application/json")
    }

    pub(super) fn error(code: ErrorCode) -> Self {
        Self::json(&wire::Error::new(code, code.message())).with_status(code)
    }

    /// Returns the 500 reply for a request whose handler panicked. The cause does not repeat the panic message, because
    /// the panic hook has already printed it.
    pub(super) fn panicked() -> Self {
        Self::internal().because("the handling of a request panicked")
    }

    /// Attaches the cause of a failure, which [`report`](Self::report) logs later.
    pub(super) fn because(self, fault: impl Into<Box<dyn Cause + Send + Sync>>) -> Self {
        Self { fault: Some(Arc::from(fault.into())), ..self }
    }

    /// Returns whether the reply has a cause that was not logged yet.
    pub(super) fn is_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Logs the cause of the reply, if there is one, and removes it. At most one line per second is logged for 503 and
    /// one for all other statuses, because one cause may affect thousands of requests.
    pub(super) fn report(mut self, request: Option<&str>) -> Self {
        if let Some(fault) = self.fault.take() {
            if self.status == StatusCode::SERVICE_UNAVAILABLE {
                log_seldom!(warn, error = fault.as_ref(), request, "a request was answered 503");
            } else {
                log_seldom!(error, error = fault.as_ref(), request, "a request was answered 500");
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

    /// Adds `WWW-Authenticate: Bearer`, which RFC 9110, section 11.6.1 requires of a 401.
    pub(super) fn challenge(self) -> Self {
        self.header(&names::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    pub(super) fn retry_after(self, seconds: u64) -> Self {
        self.header(&names::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// Protects a reply with private content: it must not be cached, and browsers must not send its URL as `Referer`
    /// when the reader follows a link in it. A reply that has a `Cache-Control` of its own keeps it.
    pub(super) fn confidential(self) -> Self {
        let has_own = self.headers.iter().any(|(name, _)| **name == names::CACHE_CONTROL);
        let reply =
            if has_own { self } else { self.header(&names::CACHE_CONTROL, HeaderValue::from_static("no-store")) };
        reply.header(&names::REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
    }

    /// Converts the reply to GET into the reply to HEAD. The reply to HEAD has no body. Its `Content-Length` is the
    /// length of the GET body, if that is known.
    pub(super) fn without_body(self) -> Self {
        let reply = match self.length {
            Some(length) => self.header(&names::CONTENT_LENGTH, HeaderValue::from(length)),
            None => self,
        };
        Self { body: Bytes::new(), rest: Vec::new(), stream: None, ..reply }
    }

    /// Sets a header field. Callers pass only values of visible ASCII. With any other value, the field is not set.
    pub(super) fn text_header(self, name: &'static HeaderName, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => self.header(name, value),
            Err(_) => self,
        }
    }

    /// Sets a header field, replacing a previous value.
    fn header(mut self, name: &'static HeaderName, value: HeaderValue) -> Self {
        match self.headers.iter_mut().find(|(set, _)| *set == name) {
            Some((_, set)) => *set = value,
            None => self.headers.push((name, value)),
        }
        self
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).finish_non_exhaustive()
    }
}
