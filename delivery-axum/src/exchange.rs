//! Converts axum's requests and responses to and from the core's values.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::response::Response;
use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Reply};

/// Answers a request to `endpoint`.
///
/// Not an `async fn`, because its future would hold the whole request in addition to the parts taken from it.
pub(crate) fn answer(
    endpoint: Endpoint,
    delivery: Delivery,
    request: Request,
) -> impl Future<Output = Result<Response, Infallible>> {
    let (head, body) = request.into_parts();
    let path = endpoint.path().contains('{').then(|| head.uri.path().to_owned());
    let (call, body) = (Call { path, ..call(head) }, body.into_data_stream());
    async move {
        let reply = endpoint.serve(&delivery, &call, body).await;
        Ok(reply.into_response_in(call.headers).map(Body::new))
    }
}

/// Converts the head of a request.
pub(crate) fn call(head: Parts) -> Call {
    let call = Call {
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        peer: peer(&head.extensions),
        extensions: head.extensions,
        ..Call::new(head.method)
    };
    call.to_host(head.uri.authority().map(Authority::as_str))
}

pub(crate) fn response(reply: Reply) -> Response {
    reply.into_response().map(Body::new)
}

/// Returns the client's address, if the server provides it.
fn peer(extensions: &axum::http::Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
}
