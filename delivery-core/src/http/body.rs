//! How much of a body is read, and how long that may take.

use std::future::Future;
use std::time::Duration;

use ::http::{HeaderMap, header};
use bytes::Bytes;
use tokio::time::timeout;

use super::Endpoint;

/// How long a body may take: the platform's 64 KiB and the seller's 2 MiB come within a second or two.
const DEADLINE: Duration = Duration::from_secs(10);

/// A body as far as a binding read it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// All of it.
    Complete(Bytes),
    /// It is larger than the endpoint's limit; the rest was not read.
    TooLarge,
    /// The connection broke off, the body's framing is broken, or it did not come in time.
    Broken,
}

impl Endpoint {
    /// The largest body in bytes: 64 KiB for the webhook, 2 MiB for the seller, none for the rest.
    #[must_use]
    pub fn body_limit(self) -> usize {
        match self {
            Self::Validate | Self::Product | Self::Products | Self::Posts => 0,
            Self::Order => 64 << 10,
            Self::AddProduct | Self::IssueKey | Self::AddPost => 2 << 20,
        }
    }

    /// The body of a request with these `headers`: what `read` makes of it within 10 s. `read` is given the limit in bytes
    /// and says [`Body::TooLarge`] beyond it.
    ///
    /// A length that is announced as larger is believed without reading, and a body that nobody asks for is left alone.
    pub async fn body<F: Future<Output = Body>>(self, headers: &HeaderMap, read: impl FnOnce(usize) -> F) -> Body {
        let limit = self.body_limit();
        if limit == 0 {
            return Body::Complete(Bytes::new());
        }
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit as u64) {
            return Body::TooLarge;
        }
        timeout(DEADLINE, read(limit)).await.unwrap_or(Body::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_read_and_for_how_long() {
        let body = || Body::Complete(Bytes::from_static(b"{}"));
        for (endpoint, announced, takes, expected) in [
            (Endpoint::Order, None, 0, body()),
            (Endpoint::Order, Some("65536"), 9, body()),
            (Endpoint::Order, Some("65537"), 0, Body::TooLarge),
            (Endpoint::Order, Some("99999999999999999999"), 0, body()),
            (Endpoint::Order, None, 11, Body::Broken),
            (Endpoint::AddProduct, Some("65537"), 0, body()),
            (Endpoint::AddProduct, Some("2097153"), 0, Body::TooLarge),
            (Endpoint::Validate, Some("2"), 11, Body::Complete(Bytes::new())),
        ] {
            let headers =
                announced.map(|length| (header::CONTENT_LENGTH, length.parse().unwrap())).into_iter().collect();
            let read = async |limit| {
                assert_eq!(limit, endpoint.body_limit());
                tokio::time::sleep(Duration::from_secs(takes)).await;
                body()
            };
            assert_eq!(endpoint.body(&headers, read).await, expected, "{endpoint:?} {announced:?} {takes} s");
        }
    }
}
