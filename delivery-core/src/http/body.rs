//! Reading request bodies, with limits on size and time.

use std::pin::Pin;
use std::time::Duration;

use ::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use tokio::time::timeout;

use crate::limit::bodies::{BodyBudget, GaveWay};

/// How an endpoint reads the request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyRule {
    /// The body is not read.
    None,
    /// A body of at most `limit` bytes that must arrive within `deadline`. A page reads the body of a POST only.
    Read { limit: usize, deadline: Duration },
    /// A body of any length, which the handler reads.
    #[cfg(feature = "files")]
    Streamed,
}

/// The body of an upload, in the pieces in which it arrives.
#[cfg(feature = "files")]
pub(super) type Pieces<'c> = Pin<&'c mut (dyn Stream<Item = Result<Bytes, crate::files::Broken>> + Send + 'c)>;

/// The result of reading a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// The whole body arrived, or the [`BodyRule`] makes [`read`] skip the body. The bytes are empty if the body was
    /// skipped, and also if it was read with [`Keep::Nothing`].
    Complete(Bytes),
    /// The body is larger than the endpoint allows. The part beyond the limit was not read.
    TooLarge,
    /// The connection was lost, or the body's framing is invalid.
    Broken,
    /// The body did not arrive before the deadline.
    Late,
    /// The body was discarded to limit the use of memory. All unauthenticated bodies together exceeded their memory
    /// budget, and this body was the oldest of them.
    GaveWay,
}

/// How much of a body is kept in memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keep<'a> {
    /// Nothing: the body is read only to check its length.
    Nothing,
    /// The whole body, because the sender is authenticated.
    All,
    /// The whole body, counted against the memory budget for unauthenticated bodies until it is complete.
    Within(&'a BodyBudget),
}

impl Keep<'_> {
    /// Keeps the body only if its sender is authenticated.
    pub(super) fn all_if(is_known: bool) -> Self {
        if is_known { Self::All } else { Self::Nothing }
    }
}

/// Reads a body within the limits that `rule` sets.
///
/// If `Content-Length` is above the limit on the size, the body is refused without reading it.
pub(super) async fn read<E>(
    rule: BodyRule,
    headers: &HeaderMap,
    body: Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    keep: Keep<'_>,
) -> Body {
    let (limit, deadline) = match rule {
        #[cfg(feature = "files")]
        BodyRule::Streamed => return Body::Complete(Bytes::new()),
        BodyRule::None => return Body::Complete(Bytes::new()),
        BodyRule::Read { limit, deadline } => (limit, deadline),
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Body::TooLarge;
    }
    // The future that reads the body is large. It is boxed, so that the future of a call without a body stays small.
    match Box::pin(timeout(deadline, collect(body, announced, limit, keep))).await {
        Ok(Ok((length, _))) if announced.is_some_and(|announced| announced != length as u64) => Body::Broken,
        Ok(Ok((_, bytes))) => Body::Complete(bytes),
        Ok(Err(body)) => body,
        Err(_) => Body::Late,
    }
}

async fn collect<E>(
    mut body: Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    announced: Option<u64>,
    limit: usize,
    keep: Keep<'_>,
) -> Result<(usize, Bytes), Body> {
    // Most bodies arrive in one piece, whose length equals `Content-Length`. This piece is kept without copying, and
    // does not count against the memory budget.
    let mut whole = Bytes::new();
    let mut pieces = BytesMut::new();
    let mut stranger = None;
    let mut length = 0;
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|_| Body::Broken)?;
        // HTTP/2 may end a body with an empty piece.
        if piece.is_empty() {
            continue;
        }
        length += piece.len();
        if length > limit {
            return Err(Body::TooLarge);
        }
        match keep {
            Keep::Nothing => {}
            _ if announced == Some(piece.len() as u64) => whole = piece,
            Keep::All => pieces.extend_from_slice(&piece),
            Keep::Within(budget) => stranger.get_or_insert_with(|| budget.begin()).push(&piece)?,
        }
    }
    Ok(match stranger {
        Some(kept) => (length, kept.finish()?),
        None => (length, if pieces.is_empty() { whole } else { pieces.freeze() }),
    })
}

impl From<GaveWay> for Body {
    fn from(_: GaveWay) -> Self {
        Self::GaveWay
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::stream;

    use super::super::Endpoint;
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn what_is_read_and_for_how_long() {
        let budget = BodyBudget::new(MIB);
        let (known, nobody) = (Keep::All, Keep::Nothing);
        let stranger = Keep::Within(&budget);
        let complete = |bytes: &[u8]| Body::Complete(Bytes::copy_from_slice(bytes));
        for (endpoint, announced, pieces, seconds, keep, expected) in [
            // It leaves the whole budget to the next ones.
            (Endpoint::AddProduct, None, vec![MIB, 1], 0, stranger, Body::GaveWay),
            (Endpoint::Order, None, vec![2], 0, stranger, complete(b"xx")),
            (Endpoint::Order, Some("2"), vec![1, 0, 1], 3, stranger, complete(b"xx")),
            (Endpoint::Order, Some("2"), vec![2, 0], 0, stranger, complete(b"xx")),
            (Endpoint::Order, Some("2"), vec![0, 2], 0, stranger, complete(b"xx")),
            (Endpoint::Order, Some("3"), vec![2], 0, stranger, Body::Broken),
            (Endpoint::Order, Some("65537"), vec![], 0, stranger, Body::TooLarge),
            (Endpoint::Order, None, vec![65_536, 1], 0, stranger, Body::TooLarge),
            (Endpoint::Order, None, vec![1, 1, 1], 4, stranger, Body::Late),
            (Endpoint::AddProduct, Some("2097153"), vec![], 0, stranger, Body::TooLarge),
            (Endpoint::AddProduct, None, vec![MIB, MIB, 1], 0, nobody, Body::TooLarge),
            (Endpoint::AddProduct, None, vec![MIB, MIB], 0, nobody, complete(b"")),
            (Endpoint::AddProduct, None, vec![1, 1, 1], 9, known, complete(b"xxx")),
            (Endpoint::AddProduct, None, vec![1, 1, 1], 11, known, Body::Late),
            (Endpoint::Validate, Some("2"), vec![2], 99, known, complete(b"")),
        ] {
            let headers =
                announced.map(|length| (header::CONTENT_LENGTH, length.parse().unwrap())).into_iter().collect();
            let body = stream::iter(pieces.clone()).then(async |length| {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok::<_, ()>(Bytes::from(vec![b'x'; length]))
            });
            let read = read(endpoint.row().body, &headers, pin!(body), keep).await;
            assert_eq!(read, expected, "{endpoint:?} {announced:?} {pieces:?} {seconds} s {keep:?}");
        }
    }

    #[tokio::test]
    async fn what_breaks_off_is_broken() {
        let body = stream::iter([Ok(Bytes::from_static(b"{")), Err(())]);
        assert_eq!(read(Endpoint::Order.row().body, &HeaderMap::new(), pin!(body), Keep::All).await, Body::Broken);
    }
}
