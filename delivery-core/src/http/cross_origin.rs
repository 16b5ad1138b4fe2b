//! Requests from pages of other origins, as the Fetch standard's CORS protocol defines it
//! (<https://fetch.spec.whatwg.org/#http-cors-protocol>).

use ::http::{HeaderValue, Method, StatusCode, header};

use super::{Call, Reply, names};
use crate::cross_origin::CrossOrigin;

/// What a page of another origin may send beside the fields that need no permission.
const SENT: &str = "authorization, x-api-key, idempotency-key";
/// What a page of another origin may read beside the fields that need no permission.
const EXPOSED: &str = "retry-after, ratelimit, ratelimit-policy, x-request-id";
/// How long a browser remembers the answer to a preflight, in seconds: the longest that Chromium accepts.
const REMEMBERED: &str = "7200";

/// Returns whether a call asks for permission, before the request itself.
pub(super) fn is_preflight(call: &Call) -> bool {
    call.method == Method::OPTIONS && call.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the reply that gives permission.
pub(super) fn permission(methods: &str) -> Reply {
    Reply::empty(StatusCode::NO_CONTENT)
        .text_header(&names::ALLOW_METHODS, methods)
        .text_header(&names::ALLOW_HEADERS, SENT)
        .text_header(&names::MAX_AGE, REMEMBERED)
}

/// Adds the permission to a reply for a page of an `allowed` origin.
pub(super) fn apply(origins: &CrossOrigin, allowed: Option<&HeaderValue>, reply: Reply) -> Reply {
    // A cache must not give a reply for one origin to another.
    let reply = if origins.varies() { reply.text_header(&names::VARY, "origin") } else { reply };
    match allowed.and_then(|allowed| allowed.to_str().ok()) {
        Some(allowed) => reply.text_header(&names::ALLOW_ORIGIN, allowed).text_header(&names::EXPOSE_HEADERS, EXPOSED),
        None => reply,
    }
}
