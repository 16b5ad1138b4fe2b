//! The complete server on axum: `cargo run --release --example axum_server`. `--help` lists its settings.

#[path = "server/alarm.rs"]
mod alarm;
mod server;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use alarm::Timer;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use delivery_core::Delivery;
use delivery_core::delivery::Running;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use server::requests::{self, Open};
use server::{GRACE, Opened, Refusal, capacity, docs, health};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

static ID: HeaderName = HeaderName::from_static(requests::ID);
/// How long a client may take over the head of a request, and a connection be idle.
const HEADERS: Duration = Duration::from_secs(15);
/// How long the head of a request may be, and how much of a body waits to be read, in bytes.
const BUFFER: usize = 64 << 10;
/// How long a client may take nothing of an answer.
const STALLED: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    server::run(async {
        let Opened { listener, address, delivery } = server::open().await?;
        let running = delivery.start().await?;
        let stop = server::signal::stop()?;
        server::announce(address);
        serve(listener, app(delivery), &running, stop).await;
        running.stop().await;
        Ok::<(), Refusal>(())
    })
    .await
}

fn app(delivery: Delivery) -> Router {
    Router::new()
        .route(health::LIVE, any(health))
        .route(health::READY, any(health))
        .with_state(delivery.clone())
        .route(docs::PATH, any(reference))
        .merge(delivery_axum::router(delivery))
        .fallback(delivery_axum::not_found)
        // Makes routes of the handlers now, as `axum::serve` would, and not for each request.
        .with_state(())
}

fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

async fn reference(method: Method) -> Response {
    match docs::page().filter(|_| reads(&method)) {
        Some(page) => {
            let headers = [(header::CONTENT_TYPE, docs::TYPE), (header::CONTENT_SECURITY_POLICY, docs::POLICY)];
            (headers, page).into_response()
        }
        None => delivery_axum::not_found().await,
    }
}

async fn health(State(delivery): State<Delivery>, request: Request) -> Response {
    let asked = reads(request.method());
    match health::check(request.uri().path(), &delivery).await.filter(|_| asked) {
        Some((status, json)) => {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        None => delivery_axum::not_found().await,
    }
}

/// Answers a request: gives it a name, tells the log how it was answered, and answers for a handler that panics.
///
/// Around the router and not as layers of it, which would box every route twice more.
async fn answer(app: Router, mut request: Request) -> Result<Response, Infallible> {
    let given = request.headers().get(&ID).and_then(|id| id.to_str().ok());
    let open = Open::new(given, request.method().as_str(), request.uri().path());
    let id = HeaderValue::from_str(open.id()).unwrap_or(HeaderValue::from_static("unknown"));
    request.headers_mut().insert(&ID, id.clone());
    // What a panic leaves behind is dropped with the request.
    let answered = AssertUnwindSafe(app.oneshot(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| Ok(delivery_axum::internal()))?;
    open.answered(response.status().as_u16());
    response.headers_mut().insert(&ID, id);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// Serves until asked to stop, and then until open requests are answered or their time is over.
///
/// `axum::serve` sets no deadlines and no bounds, and one slow client a thousand times over would hold every descriptor.
async fn serve(listener: TcpListener, app: Router, running: &Running, stop: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    // While all are taken, clients wait in the listener's queue.
    let places = Arc::new(Semaphore::new(capacity::connections()));
    let mut http = http1::Builder::new();
    http.header_read_timeout(HEADERS).max_buf_size(BUFFER);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accept = async {
            // Never closed.
            let place = places.clone().acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (stream, peer, place) = tokio::select! {
            () = &mut stop => break,
            (accepted, place) = accept => match accepted {
                Ok((stream, peer)) => (stream, peer, place),
                Err(error) => {
                    // No descriptor is free, or the client is gone already: others may be luckier in a moment.
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        // Answers are single writes: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(STALLED));
        let app = app.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            answer(app.clone(), request)
        });
        http.timer(Timer::new());
        let connection = connections.watch(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
        tokio::spawn(async move {
            // Clients break off as they like.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    running.stop_sending();
    if tokio::time::timeout(GRACE, connections.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}
