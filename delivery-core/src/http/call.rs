//! A request, independent of any web framework.

use std::fmt;
use std::net::IpAddr;

use ::http::header::Entry;
use ::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;

use super::names;

/// The maximum length of a request id that may be logged, in bytes. Common formats, such as UUIDs and trace ids, are
/// shorter.
const LONGEST_REQUEST_ID: usize = 64;

/// A request as the web framework received it. The binding, which connects this crate to the framework, creates it. The
/// query, the values of the header fields and the body are still unparsed. `Debug` omits them, because they may contain
/// secrets.
#[expect(clippy::exhaustive_structs, reason = "bindings write it as a literal and must not miss a field")]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// The query as sent, without `?`, still percent-encoded.
    pub query: Option<String>,
    /// The path as sent, still percent-encoded. It is required for an endpoint whose [path](super::Endpoint::path) has
    /// parameters in braces, and for [`Reply::unknown`](super::Reply::unknown). For all other endpoints, a binding may
    /// pass `None`.
    pub path: Option<String>,
    /// The header fields, in the order sent. A binding must include fields whose values are not UTF-8. Without them, a
    /// malformed field would be taken for an absent one.
    pub headers: HeaderMap,
    /// The body, if it was already read. [`Endpoint::serve`](super::Endpoint::serve) ignores this field, and takes the
    /// body as a stream.
    pub body: Bytes,
    /// The address at the other end of the connection. `None` if the host application does not know this address.
    pub peer: Option<IpAddr>,
    /// The extensions of the request, such as the user that the host application's middleware has signed in. They are
    /// passed to [`Seller::authenticate`](crate::seller::Seller::authenticate).
    pub extensions: Extensions,
}

impl Call {
    /// Creates a call without query, path, headers, body, peer address or extensions.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self {
            method,
            query: None,
            path: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            peer: None,
            extensions: Extensions::new(),
        }
    }

    /// Adds the header field `Host` with the value `host`, if the call has no such field. This is for HTTP/2 requests,
    /// which have the host in the URI.
    #[must_use]
    pub fn to_host(mut self, host: Option<impl fmt::Display>) -> Self {
        if let (Some(host), Entry::Vacant(field)) = (host, self.headers.entry(header::HOST))
            && let Ok(host) = HeaderValue::try_from(host.to_string())
        {
            field.insert(host);
        }
        self
    }

    /// Sets the query, which must be percent-encoded.
    #[must_use]
    pub fn query(self, query: impl Into<String>) -> Self {
        Self { query: Some(query.into()), ..self }
    }

    /// Appends a header field.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Sets a JSON body, and appends its `Content-Type`.
    #[must_use]
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self { body: body.into(), ..self }.header(header::CONTENT_TYPE, json)
    }

    /// Sets the peer address.
    #[must_use]
    pub fn from(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// Returns a segment of the path, counted from the end: 0 is the last.
    #[cfg(feature = "files")]
    pub(super) fn path_segment(&self, from_end: usize) -> Option<&str> {
        self.path.as_deref()?.rsplit('/').nth(from_end)
    }

    /// Returns the client's `X-Request-Id`, if it [may be logged](is_request_id).
    pub(super) fn request_id(&self) -> Option<&str> {
        self.headers.get(&names::REQUEST_ID)?.to_str().ok().filter(|id| is_request_id(id))
    }
}

/// Returns whether a client's `X-Request-Id` may be logged. It must consist of 1 to 64 ASCII letters, digits, and
/// `-.:`. Underscores are not allowed, because every key that this service issues contains an underscore. So a key
/// that a client sends as the request id by mistake is not logged.
#[must_use]
pub fn is_request_id(text: &str) -> bool {
    (1..=LONGEST_REQUEST_ID).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("peer", &self.peer).finish_non_exhaustive()
    }
}
