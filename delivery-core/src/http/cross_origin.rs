//! Requests from pages of other origins, according to the CORS protocol of the Fetch standard
//! (<https://fetch.spec.whatwg.org/#http-cors-protocol>).

use ::http::{HeaderValue, Method, StatusCode, header};

use super::{Call, Reply, names};
use crate::cross_origin::CrossOrigin;

/// The request header fields that a page of another origin may send, in addition to the CORS-safelisted ones, which
/// need no permission.
const SENT: &str = "authorization, x-api-key, idempotency-key";
/// The response header fields that a page of another origin may read, in addition to the CORS-safelisted ones, which
/// need no permission.
const EXPOSED: &str = "retry-after, ratelimit, ratelimit-policy, x-request-id";
/// How long a browser may cache the reply to a preflight, in seconds. This is the maximum that Chromium accepts.
const REMEMBERED: &str = "7200";

/// Returns whether a call is a preflight, by which a browser asks for permission before it sends the actual request.
pub(super) fn is_preflight(call: &Call) -> bool {
    call.method == Method::OPTIONS && call.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the reply to a preflight, which permits `methods` and the header fields in [`SENT`].
pub(super) fn permission(methods: &str) -> Reply {
    Reply::empty(StatusCode::NO_CONTENT)
        .text_header(&names::ALLOW_METHODS, methods)
        .text_header(&names::ALLOW_HEADERS, SENT)
        .text_header(&names::MAX_AGE, REMEMBERED)
}

/// Adds the CORS header fields to a reply. `allowed` is the value of `Access-Control-Allow-Origin`. If `allowed` is
/// `None`, the page must not read the reply, and at most `Vary` is added.
pub(super) fn apply(origins: &CrossOrigin, allowed: Option<&HeaderValue>, reply: Reply) -> Reply {
    // A cache must not use the reply to one origin for another origin.
    let reply = if origins.varies() { reply.text_header(&names::VARY, "origin") } else { reply };
    match allowed.and_then(|allowed| allowed.to_str().ok()) {
        Some(allowed) => reply.text_header(&names::ALLOW_ORIGIN, allowed).text_header(&names::EXPOSE_HEADERS, EXPOSED),
        None => reply,
    }
}
