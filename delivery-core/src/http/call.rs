//! A request as a value.

use std::net::IpAddr;

use ::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;

use super::names;

/// A name for a request has at most so many characters: enough for every usual kind.
const LONGEST_REQUEST_ID: usize = 64;

/// A request as a framework received it: nothing parsed but its framing. `Debug` shows neither query nor headers nor body,
/// which hold secrets.
#[expect(clippy::exhaustive_structs, reason = "bindings write it as a literal and must not miss a field")]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The query as sent, without `?`, still percent-encoded.
    pub query: Option<String>,
    /// The header fields, in the order sent. A value that is not UTF-8 belongs here too: without it a request would be taken
    /// for one that has no such field.
    pub headers: HeaderMap,
    /// The body, if it was already read. [`Endpoint::serve`](super::Endpoint::serve) takes the body as a stream
    /// instead.
    pub body: Bytes,
    /// The address at the other end of the connection; `None` if the host does not know it.
    pub peer: Option<IpAddr>,
    /// What the host's middleware left with the request, for a [`Seller`](crate::seller::Seller) of the host's.
    pub extensions: Extensions,
}

impl Call {
    /// A call without query, headers, body, address or extensions.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self {
            method,
            query: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            peer: None,
            extensions: Extensions::new(),
        }
    }

    /// The same call, to this host if it names none: a request of HTTP/2 has the host in its URI, and no `Host`.
    #[must_use]
    pub fn to_host(mut self, host: Option<&str>) -> Self {
        if let Some(Ok(host)) = host.map(HeaderValue::from_str) {
            self.headers.entry(header::HOST).or_insert(host);
        }
        self
    }

    /// The same call with a query, percent-encoded.
    #[must_use]
    pub fn query(self, query: impl Into<String>) -> Self {
        Self { query: Some(query.into()), ..self }
    }

    /// The same call with one more header field.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// The same call with a JSON body.
    #[must_use]
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self { body: body.into(), ..self }.header(header::CONTENT_TYPE, json)
    }

    /// The same call from an address.
    #[must_use]
    pub fn from(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The request id for the log, if the client sent one that [may be logged](is_request_id).
    pub(super) fn request_id(&self) -> Option<&str> {
        self.headers.get(&names::REQUEST_ID)?.to_str().ok().filter(|id| is_request_id(id))
    }
}

/// Whether a client's `X-Request-Id` may be logged: 1 to 64 ASCII letters, digits, and `-.:`. A key contains an
/// underscore, so it is never logged.
#[must_use]
pub fn is_request_id(text: &str) -> bool {
    (1..=LONGEST_REQUEST_ID).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("peer", &self.peer).finish_non_exhaustive()
    }
}
