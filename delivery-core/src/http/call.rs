//! A request as a value.

use std::net::IpAddr;

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;

use super::Body;

/// Servers and proxies give a request a name under which logs know it.
const REQUEST_ID: &str = "x-request-id";
/// Longer names are somebody's attempt to fill the log.
const LONGEST_REQUEST_ID: usize = 128;

/// A request as a framework received it: nothing parsed but the head. `Debug` shows neither query nor headers nor body,
/// which hold secrets.
#[expect(clippy::exhaustive_structs, reason = "bindings write it as a literal and must not miss a field")]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The query as sent, without `?`, still percent-encoded.
    pub query: Option<String>,
    /// The header fields, in the order sent.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
    /// The address at the other end of the connection; `None` if the host does not know it.
    pub peer: Option<IpAddr>,
}

impl Call {
    /// A call without query, headers, body or address.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self { method, query: None, headers: HeaderMap::new(), body: Body::Complete(Bytes::new()), peer: None }
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
        Self { body: Body::Complete(body.into()), ..self }.header(header::CONTENT_TYPE, json)
    }

    /// The same call from an address.
    #[must_use]
    pub fn from(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The name of the request for the log, if it has one that is fit for it.
    pub(super) fn request_id(&self) -> Option<&str> {
        let id = self.headers.get(REQUEST_ID)?.to_str().ok()?;
        (id.len() <= LONGEST_REQUEST_ID && !id.contains('\t')).then_some(id)
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("peer", &self.peer).finish_non_exhaustive()
    }
}
