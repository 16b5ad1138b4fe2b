//! The error codes of the API, each with an HTTP status and a message that is safe to show to any client.

use std::fmt;

/// The reason why a request failed, as the API reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// A required parameter is missing.
    MissingParams,
    /// A parameter is present but malformed, or it does not apply to the key. For example, uses cannot be added to a
    /// key that has no use limit.
    InvalidParams,
    /// The key is unknown or was revoked, or it was not signed by this service.
    InvalidKey,
    /// The admin token or the signature of a webhook is missing or wrong, or the shared webhook secret is wrong.
    Unauthorized,
    /// The key has expired.
    ExpiredKey,
    /// All uses of the key are spent.
    ExceededUses,
    /// The key unlocks another product.
    WrongProduct,
    /// A rule of the host application does not allow the use. The reply has the code and the message of the rule.
    Denied,
    /// The key for which a download link was made was revoked.
    RevokedKey,
    /// The resource does not exist.
    NotFound,
    /// The endpoint does not accept this HTTP method.
    MethodNotAllowed,
    /// The download link has expired. Such a link contains a ticket, which is valid for a limited time.
    ExpiredTicket,
    /// The body is larger than the endpoint accepts.
    PayloadTooLarge,
    /// The body is not `application/json` in UTF-8, or it is compressed.
    UnsupportedMediaType,
    /// The caller exceeded a rate limit.
    RateLimited,
    /// The service failed; the caller did nothing wrong.
    Internal,
    /// The database is unavailable or full, the rate limiter or the object store is unavailable, or the service is
    /// overloaded or shutting down.
    Unavailable,
}

impl ErrorCode {
    /// All codes.
    pub const ALL: [Self; 17] = [
        Self::MissingParams,
        Self::InvalidParams,
        Self::InvalidKey,
        Self::Unauthorized,
        Self::ExpiredKey,
        Self::ExceededUses,
        Self::WrongProduct,
        Self::Denied,
        Self::RevokedKey,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::ExpiredTicket,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Returns the code as the API writes it, such as `INVALID_KEY`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Returns the HTTP status that belongs to the code.
    #[must_use]
    pub fn status(self) -> u16 {
        self.row().1
    }

    /// Returns the default message, for errors without a more specific one.
    #[must_use]
    pub fn message(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::MissingParams => ("MISSING_PARAMS", 400, "A required parameter is missing."),
            Self::InvalidParams => ("INVALID_PARAMS", 400, "A parameter is malformed."),
            Self::InvalidKey => ("INVALID_KEY", 401, "The key is not valid."),
            Self::Unauthorized => ("UNAUTHORIZED", 401, "The credentials are missing or wrong."),
            Self::ExpiredKey => ("EXPIRED_KEY", 403, "The key has expired."),
            Self::ExceededUses => ("EXCEEDED_USES", 403, "All uses of the key are spent."),
            Self::WrongProduct => ("WRONG_PRODUCT", 403, "The key is for another product."),
            Self::Denied => ("DENIED", 403, "The key cannot be used now."),
            Self::RevokedKey => ("REVOKED_KEY", 403, "The key was revoked."),
            Self::NotFound => ("NOT_FOUND", 404, "There is no such thing."),
            Self::MethodNotAllowed => ("METHOD_NOT_ALLOWED", 405, "This address takes another method."),
            Self::ExpiredTicket => {
                ("EXPIRED_TICKET", 410, "The link has expired: open the product again for a new one.")
            }
            Self::PayloadTooLarge => ("PAYLOAD_TOO_LARGE", 413, "The body is too large."),
            Self::UnsupportedMediaType => {
                ("UNSUPPORTED_MEDIA_TYPE", 415, "The body must be application/json in UTF-8, not compressed.")
            }
            Self::RateLimited => ("RATE_LIMITED", 429, "Too many requests: try again after the time given."),
            Self::Internal => ("INTERNAL", 500, "The request failed through no fault of yours."),
            Self::Unavailable => ("UNAVAILABLE", 503, "The service is not available at the moment: try again shortly."),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Formats an error and its causes, separated by colons, for a log or an operator. A cause is left out if the text
/// before it already ends with the cause's text.
#[must_use]
pub fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        // Some errors already contain the text of their cause.
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    })
}
