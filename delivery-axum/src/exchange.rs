//! Between axum's requests and responses and the core's values.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::Extensions;
use axum::response::Response;
use delivery_core::Delivery;
use delivery_core::http::{Body as Read, Call, Endpoint, Reply};
use http_body_util::{BodyExt, LengthLimitError, Limited};

/// Answers a request to `endpoint`.
pub(crate) async fn answer(endpoint: Endpoint, delivery: &Delivery, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = endpoint.body(&head.headers, |limit| read(body, limit)).await;
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

/// Reads a body of at most `limit` bytes.
async fn read(body: Body, limit: usize) -> Read {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Read::Complete(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Read::TooLarge,
        Err(_) => Read::Broken,
    }
}
