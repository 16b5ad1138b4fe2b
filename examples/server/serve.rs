//! The accept loop of both servers: deadlines, limits, an id for each request, and a graceful shutdown.
//!
//! Neither `axum::serve` nor Rocket sets deadlines on everything that a client can delay, so that one slow client with
//! a thousand connections would hold every descriptor.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use delivery_core::http::Reply;
use futures_util::FutureExt;
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};

use super::alarm::Timer;
use super::pace::Paced;
use super::places::Places;
use super::requests::{self, Open};
use super::{GRACE, Opened, signal};

static ID: HeaderName = HeaderName::from_static(requests::ID);
/// How long a client may take over the head of a request, and a connection be idle.
const HEADERS: Duration = Duration::from_secs(15);
/// How long the head of a request may be, and how much of a body waits to be read, in bytes.
const BUFFER: usize = 64 << 10;
/// How long to leave the listener alone after it failed: no descriptor is free, or a client is gone already.
const FAILED: Duration = Duration::from_millis(50);

/// An application of either framework.
pub trait Application: Clone + Send + Sync + 'static {
    /// The body of its answers.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static;

    /// Answers a request from `peer`.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// Serves until asked to stop, then until open requests are answered or the grace period ends. Sends e-mails meanwhile.
///
/// # Errors
///
/// The store refuses to serve with these secrets, or the signals to stop cannot be awaited.
pub async fn serve(opened: Opened, app: impl Application) -> Result<(), super::Refusal> {
    let Opened { listener, address, delivery, places } = opened;
    let running = delivery.start().await?;
    let mut stop = std::pin::pin!(signal::stop()?);
    let connections = GracefulShutdown::new();
    super::announce(address);
    loop {
        let (stream, peer, socket) = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some(mut accepted) = places.accept(socket, peer.ip(), delivery.trusts(peer.ip())) else { continue };
        let (app, watcher) = (app.clone(), connections.watcher());
        tokio::spawn(async move {
            let Some(_place) = accepted.place(&stream).await else { return };
            let service = service_fn(move |request| respond(app.clone(), request, peer).map(Ok::<_, Infallible>));
            let mut http = http1::Builder::new();
            http.header_read_timeout(HEADERS).max_buf_size(BUFFER).timer(Timer::new());
            let connection = http.serve_connection(TokioIo::new(Box::pin(Paced::new(stream))), service);
            // Clients break off as they like.
            let _ = watcher.watch(connection).await;
        });
    }
    drop(listener);
    places.close();
    running.stop_sending();
    let finish = async {
        connections.shutdown().await;
        running.stop().await;
    };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        tracing::warn!("some requests or the store did not end in time and were cut off");
    }
    Ok(())
}

async fn accept(listener: &TcpListener, places: &Places) -> (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit) {
    loop {
        // While all descriptors are taken, clients wait in the listener's queue.
        let Some(socket) = places.socket().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, socket),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(FAILED).await;
            }
        }
    }
}

/// Answers a request: gives it a name, tells the log how it was answered, and answers for a handler that panics.
async fn respond<A: Application>(
    app: A,
    mut request: Request<Incoming>,
    peer: SocketAddr,
) -> Response<Either<A::Body, Full<Bytes>>> {
    let given = request.headers().get(&ID).and_then(|id| id.to_str().ok());
    let open = Open::new(given, request.method().as_str(), request.uri().path());
    let id = HeaderValue::from_str(open.id()).unwrap_or(HeaderValue::from_static("unknown"));
    request.headers_mut().insert(&ID, id.clone());
    let own = |reply: Reply| reply.into_response().map(|body| Either::Right(Full::new(body)));
    let mut response = if has_host(request.version(), request.headers()) {
        // What a panic leaves behind is dropped with the request.
        let answered = AssertUnwindSafe(app.answer(request, peer)).catch_unwind().await;
        answered.map_or_else(|_| own(Reply::internal()), |response| response.map(Either::Left))
    } else {
        own(Reply::bad_request("The Host header must be there, and once."))
    };
    open.answered(response.status().as_u16());
    response.headers_mut().insert(&ID, id);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// RFC 9112, 3.2: a request of HTTP/1.1 without `Host`, or with two, is answered 400. A proxy might take another one.
fn has_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.as_bytes().iter().all(u8::is_ascii_graphic),
        (None, _) => version < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}
