//! The accept loop of `axum_server`: deadlines, limits, an id for each request, and a graceful shutdown.
//!
//! `axum::serve` sets no deadline on what a client can delay, so one slow client with a thousand connections could use
//! up the file descriptors.

use std::convert::Infallible;
use std::future::Future;
use std::io;
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
use hyper::{Request, Response, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::OwnedSemaphorePermit;

use super::alarm::Timer;
use super::chunks::Chunks;
use super::heard::Heard;
use super::idle::Answered;
use super::pace::Paced;
use super::places::Places;
use super::requests::{self, Open};
use super::signal::Stop;
use crate::settings::listen::Listen;
use crate::{GRACE, Opened, Refusal, announce};

static ID: HeaderName = HeaderName::from_static(requests::ID);
/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;
/// The longest head of a request, and how much of a body is buffered, in bytes.
const BUFFER: usize = 64 << 10;
/// How long to wait after a connection could not be accepted: no file descriptor is free, or the client has already
/// gone.
const FAILED: Duration = Duration::from_millis(50);
/// How long idle connections stay open for one more request once the server stops.
const DRAIN: Duration = Duration::from_secs(2);
/// How often to look whether all connections are closed.
const LOOK: Duration = Duration::from_millis(20);

/// Listens on `address`, from now on: clients that connect while the server starts wait for it.
///
/// # Errors
///
/// The address cannot be listened on.
pub fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let (socket, address) = reserve(address)?;
    Ok((socket.listen(BACKLOG)?, address))
}

/// Reserves `address` for a framework that opens its own listener. If the port is 0, the system chooses one. On Linux
/// the framework can bind the same address, because this socket does not listen.
///
/// # Errors
///
/// The address cannot be listened on.
pub fn reserve(address: SocketAddr) -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// An application that answers requests.
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
/// The store refuses these secrets, or does not answer.
pub async fn serve(opened: Opened<TcpListener>, app: impl Application) -> Result<(), Refusal> {
    let Opened { listener, address, delivery, mut background, listen, stop } = opened;
    let running = delivery.start().await?;
    let places = Places::new(listen.max_connections, listen.max_connections_per_address);
    background.places = Some(places.clone());
    let background = background.start(&delivery);
    let server = Server { app, delivery, places, listen, connections: GracefulShutdown::new(), stop: stop.clone() };
    announce(address);
    server.accept_until(&listener, pin!(stop.asked())).await;
    // The grace period includes `STOP_DELAY`.
    let grace = tokio::time::sleep(GRACE);
    server.accept_until(&listener, pin!(stop.delayed())).await;
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
    running.stop().await;
    background.stop().await;
    Ok(())
}

/// What connections share.
struct Server<A> {
    app: A,
    delivery: Delivery,
    places: Places,
    listen: Listen,
    connections: GracefulShutdown,
    /// Once the server is asked to stop, each answer is the last of its connection.
    stop: Stop,
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
        let (watcher, stop) = (self.connections.watcher(), self.stop.clone());
        tokio::spawn(async move {
            let Some(place) = accepted.place(&stream, listen.head_timeout).await else { return };
            let (lingers, conversation) = (Arc::new(AtomicBool::new(false)), place.conversation.clone());
            let paced = Paced::new(stream, listen.answer_timeout, lingers.clone(), conversation.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (app, stop, lingers) = (app.clone(), stop.clone(), lingers.clone());
                let mut answering = conversation.answer();
                async move {
                    let (head, body) = request.into_parts();
                    let (body, unread) = Heard::new(body, answering.conversation());
                    let mut response = respond(app, Request::from_parts(head, body), peer).await;
                    // A proxy that is still sending needs `Connection: close`. Otherwise it reports a broken server.
                    let unread = unread.is_unread();
                    lingers.store(unread, Ordering::Relaxed);
                    if unread || stop.has_begun() || answering.is_last() {
                        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(response.map(|body| Answered::new(Chunks::new(body), answering)))
                }
            });
            let mut http = http1::Builder::new();
            http.header_read_timeout(listen.head_timeout).max_buf_size(BUFFER).timer(Timer::new());
            let connection = http.serve_connection(TokioIo::new(Box::pin(paced)), service);
            tokio::select! {
                biased;
                // Errors are ignored: clients may disconnect at any time.
                _ = watcher.watch(connection) => {}
                () = place.conversation.closed() => {}
            }
        });
    }

    /// Serves the connections that the operating system has already accepted. Closing the listener would reset them,
    /// and requests that their clients have sent would be lost.
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

/// Waits while requests over open connections are still answered; each connection is closed after its answer. A proxy
/// may be sending a request over an idle connection right now. If the connection were closed at once, the proxy could
/// not tell whether the request was processed.
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

/// Answers a request: gives it an id, logs it, and answers 500 if the handler panics.
async fn respond<A: Application>(
    app: A,
    mut request: Request<Heard>,
    peer: SocketAddr,
) -> Response<Either<A::Body, ReplyBody>> {
    let given = request.headers().get(&ID).and_then(|id| id.to_str().ok());
    let open = Open::new(given, request.method().as_str(), request.uri().path());
    let id = HeaderValue::from_str(open.id()).unwrap_or(HeaderValue::from_static("unknown"));
    request.headers_mut().insert(&ID, id.clone());
    let own = |reply: Reply| reply.into_response().map(Either::Right);
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

/// RFC 9112, 3.2: a request of HTTP/1.1 without `Host`, or with two, is answered 400. A proxy might use the other of
/// two.
fn has_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.as_bytes().iter().all(u8::is_ascii_graphic),
        (None, _) => version < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}
