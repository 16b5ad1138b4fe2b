//! The names of the header fields in replies, and of other header fields that the `http` crate does not define.
//!
//! The names are statics, not constants, so that replies can hold `'static` references to them.

use ::http::{HeaderName, header};

pub(super) static ALLOW: HeaderName = header::ALLOW;
pub(super) static ALLOW_HEADERS: HeaderName = header::ACCESS_CONTROL_ALLOW_HEADERS;
pub(super) static ALLOW_METHODS: HeaderName = header::ACCESS_CONTROL_ALLOW_METHODS;
pub(super) static ALLOW_ORIGIN: HeaderName = header::ACCESS_CONTROL_ALLOW_ORIGIN;
pub(super) static EXPOSE_HEADERS: HeaderName = header::ACCESS_CONTROL_EXPOSE_HEADERS;
pub(super) static MAX_AGE: HeaderName = header::ACCESS_CONTROL_MAX_AGE;
pub(super) static CACHE_CONTROL: HeaderName = header::CACHE_CONTROL;
pub(super) static CONTENT_LENGTH: HeaderName = header::CONTENT_LENGTH;
pub(super) static CONTENT_TYPE: HeaderName = header::CONTENT_TYPE;
pub(super) static REFERRER_POLICY: HeaderName = header::REFERRER_POLICY;
#[cfg(feature = "files")]
pub(super) static ACCEPT_RANGES: HeaderName = header::ACCEPT_RANGES;
#[cfg(feature = "files")]
pub(super) static CONTENT_RANGE: HeaderName = header::CONTENT_RANGE;
#[cfg(feature = "files")]
pub(super) static ETAG: HeaderName = header::ETAG;
pub(super) static CONTENT_DISPOSITION: HeaderName = header::CONTENT_DISPOSITION;
#[cfg(any(feature = "files", feature = "pages"))]
pub(super) static CONTENT_SECURITY_POLICY: HeaderName = header::CONTENT_SECURITY_POLICY;
#[cfg(any(feature = "files", feature = "pages"))]
pub(super) static CONTENT_TYPE_OPTIONS: HeaderName = header::X_CONTENT_TYPE_OPTIONS;
#[cfg(feature = "pages")]
pub(super) static FRAME_OPTIONS: HeaderName = header::X_FRAME_OPTIONS;
#[cfg(any(feature = "files", feature = "pages"))]
pub(super) static LOCATION: HeaderName = header::LOCATION;
#[cfg(feature = "pages")]
pub(super) static SET_COOKIE: HeaderName = header::SET_COOKIE;
pub(super) static RETRY_AFTER: HeaderName = header::RETRY_AFTER;
pub(super) static VARY: HeaderName = header::VARY;
pub(super) static WWW_AUTHENTICATE: HeaderName = header::WWW_AUTHENTICATE;

/// The SHA-256 of a body, in hexadecimal digits.
#[cfg(feature = "files")]
pub(super) static CONTENT_SHA256: HeaderName = HeaderName::from_static("content-sha256");
/// The digest of a whole file, as defined by RFC 9530.
#[cfg(feature = "files")]
pub(super) static REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// The remaining quota of a rate limit, as defined by draft-ietf-httpapi-ratelimit-headers-10.
pub(super) static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The whole quota of a rate limit, as defined by draft-ietf-httpapi-ratelimit-headers-10.
pub(super) static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// An alternative to `Authorization: Bearer` for sending a key.
pub(super) static API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// An id that the client gives a request, so that the server recognizes a repetition of the same request. It is defined
/// by draft-ietf-httpapi-idempotency-key-header-07.
pub(super) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The addresses through which a request came, as a list. Each proxy appends the address from which it received the
/// request.
pub(super) static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// An id that clients, proxies and servers write to their logs, to correlate the entries of one request.
pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
