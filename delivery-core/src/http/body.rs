//! How much of a body is read, and how long that may take.

use std::pin::Pin;
use std::time::Duration;

use ::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use tokio::time::timeout;

use super::Endpoint;

/// A body as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// All of it, unless nobody wanted to keep it.
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
            Self::Validate | Self::Product | Self::Products | Self::Posts | Self::OpenApi => 0,
            Self::Order => 64 << 10,
            Self::AddProduct | Self::IssueKey | Self::AddPost => 2 << 20,
        }
    }

    /// How long a body may take: a platform's comes within a second, a seller may have a slow line.
    fn deadline(self) -> Duration {
        Duration::from_secs(if self.body_limit() > 64 << 10 { 30 } else { 10 })
    }

    /// Reads a body. A length that is announced as larger than the limit is believed without reading, a body that nobody
    /// asks for is left alone, and one that nobody will look into is read, for its length, and not kept.
    pub(super) async fn read<E>(
        self,
        headers: &HeaderMap,
        body: Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
        keep: bool,
    ) -> Body {
        let limit = self.body_limit();
        if limit == 0 {
            return Body::Complete(Bytes::new());
        }
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit as u64) {
            return Body::TooLarge;
        }
        // Boxed: most calls have none, and are no smaller for it.
        match Box::pin(timeout(self.deadline(), collect(body, limit, keep))).await {
            Ok(Ok((length, _))) if announced.is_some_and(|announced| announced != length as u64) => Body::Broken,
            Ok(Ok((_, bytes))) => Body::Complete(bytes),
            Ok(Err(body)) => body,
            Err(_) => Body::Broken,
        }
    }
}

async fn collect<E>(
    mut body: Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    limit: usize,
    keep: bool,
) -> Result<(usize, Bytes), Body> {
    // Most bodies come in one piece, which needs no copy.
    let mut whole = Bytes::new();
    let mut pieces = BytesMut::new();
    let mut length = 0;
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|_| Body::Broken)?;
        let first = length == 0;
        length += piece.len();
        if length > limit {
            return Err(Body::TooLarge);
        }
        if keep && first {
            whole = piece;
        } else if keep {
            pieces.extend_from_slice(&std::mem::take(&mut whole));
            pieces.extend_from_slice(&piece);
        }
    }
    Ok((length, if pieces.is_empty() { whole } else { pieces.freeze() }))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::stream;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn what_is_read_and_for_how_long() {
        let complete = |bytes: &[u8]| Body::Complete(Bytes::copy_from_slice(bytes));
        for (endpoint, announced, pieces, seconds, keep, expected) in [
            (Endpoint::Order, None, vec![2], 0, true, complete(b"xx")),
            (Endpoint::Order, Some("2"), vec![1, 0, 1], 3, true, complete(b"xx")),
            (Endpoint::Order, Some("3"), vec![2], 0, true, Body::Broken),
            (Endpoint::Order, Some("65537"), vec![], 0, true, Body::TooLarge),
            (Endpoint::Order, None, vec![65_536, 1], 0, true, Body::TooLarge),
            (Endpoint::Order, None, vec![1, 1, 1], 4, true, Body::Broken),
            (Endpoint::AddProduct, Some("2097153"), vec![], 0, true, Body::TooLarge),
            (Endpoint::AddProduct, None, vec![MIB, MIB, 1], 0, false, Body::TooLarge),
            (Endpoint::AddProduct, None, vec![MIB, MIB], 0, false, complete(b"")),
            (Endpoint::AddProduct, None, vec![1, 1, 1], 9, true, complete(b"xxx")),
            (Endpoint::AddProduct, None, vec![1, 1, 1], 11, true, Body::Broken),
            (Endpoint::Validate, Some("2"), vec![2], 99, true, complete(b"")),
        ] {
            let headers =
                announced.map(|length| (header::CONTENT_LENGTH, length.parse().unwrap())).into_iter().collect();
            let body = stream::iter(pieces.clone()).then(async |length| {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok::<_, ()>(Bytes::from(vec![b'x'; length]))
            });
            let read = endpoint.read(&headers, pin!(body), keep).await;
            assert_eq!(read, expected, "{endpoint:?} {announced:?} {pieces:?} {seconds} s {keep}");
        }
    }

    #[tokio::test]
    async fn what_breaks_off_is_broken() {
        let body = stream::iter([Ok(Bytes::from_static(b"{")), Err(())]);
        assert_eq!(Endpoint::Order.read(&HeaderMap::new(), pin!(body), true).await, Body::Broken);
    }
}
