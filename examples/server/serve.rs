//! The accept loop of both servers: deadlines, limits, an id for each request, and a graceful shutdown.
//!
//! Neither `axum::serve` nor Rocket sets deadlines on everything that a client can delay, so that one slow client with
//! a thousand connections would hold every descriptor.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use delivery_core::Delivery;
use delivery_core::http::{Reply, ReplyBody};
use futures_util::FutureExt;
use http_body_util::Either;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;

use super::alarm::Timer;
use super::heard::Heard;
use super::idle::Answered;
use super::listen::Listen;
use super::pace::Paced;
use super::places::Places;
use super::requests::{self, Open};
use super::{GRACE, Opened, health};

static ID: HeaderName = HeaderName::from_static(requests::ID);
/// How long the head of a request may be, and how much of a body waits to be read, in bytes.
const BUFFER: usize = 64 << 10;
/// How long to leave the listener alone after it failed: no descriptor is free, or a client is gone already.
const FAILED: Duration = Duration::from_millis(50);
/// How long connections that are idle may bring one more request once the server stops.
const DRAIN: Duration = Duration::from_secs(2);
/// How often to look whether all connections are closed.
const LOOK: Duration = Duration::from_millis(20);
/// How long the outbox and the store may take once connections are closed: the outbox takes ten seconds at most.
const CLOSING: Duration = Duration::from_secs(12);
/// How long all of this may take from the signal on, so that the process has ended before a service manager kills it after 30 s.
const LONGEST: Duration = Duration::from_secs(27);

/// An application of either framework.
pub trait Application: Clone + Send + Sync + 'static {
    /// The body of its answers.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static;

    /// Answers a request from `peer`.
    fn answer(
        &self,
        request: Request<Heard>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// Serves until asked to stop, then until open requests are answered or the grace period ends. Sends e-mails meanwhile.
///
/// # Errors
///
/// The store refuses to serve with these secrets.
pub async fn serve(opened: Opened, app: impl Application) -> Result<(), super::Refusal> {
    let Opened { listener, address, delivery, places, beside, listen, signals } = opened;
    let running = delivery.start().await?;
    let beside = beside.start(&delivery, &places);
    let (connections, draining) = (GracefulShutdown::new(), Arc::new(AtomicBool::new(false)));
    let server = Server { app, delivery, places, listen, connections, draining };
    super::announce(address);
    server.accept_until(&listener, pin!(signals.clone().asked(1))).await;
    // From now on, whatever the delay takes of it.
    let (grace, end) = (tokio::time::sleep(GRACE), tokio::time::sleep(LONGEST));
    server.draining.store(true, Ordering::Relaxed);
    if !listen.stop_delay.is_zero() {
        tracing::info!(seconds = listen.stop_delay.as_secs(), "stopping: still taking connections, for STOP_DELAY");
        // Whoever asks again does not want to wait.
        let delay = async {
            let _ = tokio::time::timeout(listen.stop_delay, signals.asked(2)).await;
        };
        server.accept_until(&listener, pin!(delay)).await;
    }
    tracing::info!("stopping: finishing open requests");
    server.accept_the_last(listener);
    let Server { places, connections, .. } = server;
    places.close();
    running.stop_sending();
    let answered = async {
        drain(&connections).await;
        connections.shutdown().await;
    };
    tokio::select! {
        biased;
        () = answered => {}
        () = grace => tracing::warn!("some requests did not end in time and are cut off"),
    }
    let closed = async {
        running.stop().await;
        beside.stop().await;
    };
    let is_closed = tokio::select! {
        closed = tokio::time::timeout(CLOSING, closed) => closed.is_ok(),
        () = end => false,
    };
    if !is_closed {
        tracing::warn!("the outbox or the store did not end in time and is cut off");
    }
    Ok(())
}

/// What connections share.
struct Server<A> {
    app: A,
    delivery: Delivery,
    places: Places,
    listen: Listen,
    connections: GracefulShutdown,
    /// Whether the server stops: it is not ready, and each answer is the last of its connection.
    draining: Arc<AtomicBool>,
}

impl<A: Application> Server<A> {
    /// Accepts connections until `end`.
    async fn accept_until(&self, listener: &TcpListener, mut end: Pin<&mut impl Future<Output = ()>>) {
        loop {
            tokio::select! {
                () = &mut end => break,
                (stream, peer, socket) = accept(listener, &self.places) => self.serve_connection(stream, peer, socket),
            }
        }
    }

    /// Serves a connection, in a task of its own.
    fn serve_connection(&self, stream: TcpStream, peer: SocketAddr, socket: OwnedSemaphorePermit) {
        let accepted = self.places.accept(socket, peer.ip(), self.delivery.trusts(peer.ip()));
        let Some(mut accepted) = accepted else { return };
        let (app, listen) = (self.app.clone(), self.listen);
        let (watcher, draining) = (self.connections.watcher(), self.draining.clone());
        tokio::spawn(async move {
            let Some(place) = accepted.place(&stream, listen.head_timeout).await else { return };
            let (lingers, conversation) = (Arc::new(AtomicBool::new(false)), place.conversation.clone());
            let paced = Paced::new(stream, listen.answer_timeout, lingers.clone(), conversation.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (app, draining, lingers) = (app.clone(), draining.clone(), lingers.clone());
                let mut answering = conversation.answer();
                async move {
                    let stops = draining.load(Ordering::Relaxed);
                    let (head, body) = request.into_parts();
                    let (body, unread) = Heard::new(body, answering.conversation());
                    let mut response = respond(app, Request::from_parts(head, body), peer, stops).await;
                    // A proxy that is still sending must be told, or it takes the closed connection for a broken server.
                    let unread = unread.is_unread();
                    lingers.store(unread, Ordering::Relaxed);
                    if unread || stops || draining.load(Ordering::Relaxed) || answering.is_last() {
                        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(response.map(|body| Answered::new(body, answering)))
                }
            });
            let mut http = http1::Builder::new();
            http.header_read_timeout(listen.head_timeout).max_buf_size(BUFFER).timer(Timer::new());
            let connection = http.serve_connection(TokioIo::new(Box::pin(paced)), service);
            tokio::select! {
                biased;
                // Clients break off as they like.
                _ = watcher.watch(connection) => {}
                () = place.conversation.closed() => {}
            }
        });
    }

    /// Serves the connections that the system has taken already: closing the listener would reset them, with the requests that
    /// their clients have sent.
    fn accept_the_last(&self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else { return };
        while let Some(Some(socket)) = self.places.socket().now_or_never()
            && let Ok((stream, peer)) = listener.accept()
            && stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            self.serve_connection(stream, peer, socket);
        }
    }
}

/// Answers what still comes over open connections, and closes each with its answer. A proxy that keeps connections may send a
/// request at this moment, and could not tell whether one that is closed at once has taken it.
async fn drain(connections: &GracefulShutdown) {
    let mut left = DRAIN;
    while connections.count() > 0 && !left.is_zero() {
        tokio::time::sleep(LOOK).await;
        left = left.saturating_sub(LOOK);
    }
}

async fn accept(listener: &TcpListener, places: &Places) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
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
    mut request: Request<Heard>,
    peer: SocketAddr,
    stops: bool,
) -> Response<Either<A::Body, ReplyBody>> {
    let given = request.headers().get(&ID).and_then(|id| id.to_str().ok());
    let open = Open::new(given, request.method().as_str(), request.uri().path());
    let id = HeaderValue::from_str(open.id()).unwrap_or(HeaderValue::from_static("unknown"));
    request.headers_mut().insert(&ID, id.clone());
    let own = |reply: Reply| reply.into_response().map(Either::Right);
    let mut response = if stops && request.uri().path() == health::READY {
        stopping().map(Either::Right)
    } else if has_host(request.version(), request.headers()) {
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

/// What a server that stops says at `/readyz`.
fn stopping() -> Response<ReplyBody> {
    let mut response = Response::new(Bytes::from_static(br#"{"status":"stopping"}"#).into());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
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
