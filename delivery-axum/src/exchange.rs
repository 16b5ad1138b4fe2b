//! Between axum's requests and responses and the core's values.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::Extensions;
use axum::response::Response;
use delivery_core::Delivery;
use delivery_core::http::{Body as Read, Call, Endpoint, Reply};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

/// How long a body may take: the platform's 64 KiB and the seller's 2 MiB come within a second or two.
const DEADLINE: Duration = Duration::from_secs(10);

/// Answers a request to `endpoint`.
pub(crate) async fn answer(endpoint: Endpoint, delivery: &Delivery, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = read(body, endpoint.body_limit()).await;
    let query = head.uri.query().map(str::to_owned);
    let peer = peer(&head.extensions);
    let call = Call { method: head.method, query, headers: head.headers, body, peer };
    response(endpoint.call(delivery, call).await)
}

/// Where the request came from, if the server passes that on.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
}

pub(crate) fn response(reply: Reply) -> Response {
    reply.into_response().map(Body::from)
}

/// Reads a body of at most `limit` bytes, within [`DEADLINE`]. A length that is announced as larger is believed without reading, and a body
/// that nobody asks for is left alone.
async fn read(body: Body, limit: usize) -> Read {
    if limit == 0 {
        return Read::Complete(bytes::Bytes::new());
    }
    if body.size_hint().lower() > limit as u64 {
        return Read::TooLarge;
    }
    match timeout(DEADLINE, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Read::Complete(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Read::TooLarge,
        Ok(Err(_)) | Err(_) => Read::Broken,
    }
}
