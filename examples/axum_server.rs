//! The complete server on axum: `cargo run --release --example axum_server`. `--help` lists its settings.

mod server;

use std::process::ExitCode;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use delivery_core::Delivery;
use delivery_core::delivery::Running;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::{Value, json};
use server::assemble::{Service, assemble};
use server::settings::Arguments;
use server::{Refusal, explain};
use tokio::net::TcpListener;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;

/// How long a client may take over the head of a request, and a connection be idle.
const HEADERS: Duration = Duration::from_secs(15);
/// How long open requests may take once the server is asked to stop.
const GRACE: Duration = Duration::from_secs(25);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("error: {}", explain(refusal.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Refusal> {
    let settings = Arguments::read().check()?;
    server::log::start()?;
    let listener = TcpListener::bind(settings.bind)
        .await
        .map_err(|error| format!("BIND (--bind): {} cannot be listened on: {error}", settings.bind))?;
    let address = listener.local_addr()?;
    let Service { delivery, running, secrets } = assemble(&settings, address).await?;
    if let Some(greeting) = server::welcome::greeting(&secrets, &settings.data_dir, address) {
        println!("{greeting}");
    }
    let stop = server::signal::stop()?;
    println!("listening on http://{address}");
    serve(listener, app(delivery), &running, stop).await;
    running.stop().await;
    Ok(())
}

fn app(delivery: Delivery) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({ "status": "ok" })) }))
        .route("/readyz", get(ready))
        .with_state(delivery.clone())
        .merge(delivery_axum::router(delivery))
        .fallback(delivery_axum::not_found)
        .layer(CatchPanicLayer::custom(|_| delivery_axum::internal()))
}

async fn ready(State(delivery): State<Delivery>) -> (StatusCode, Json<Value>) {
    match delivery.ready().await {
        Ok(()) => (StatusCode::OK, Json(json!({ "status": "ready" }))),
        Err(error) => {
            tracing::warn!("not ready: {}", explain(&error));
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "unavailable" })))
        }
    }
}

/// Serves until asked to stop, and then until open requests are answered or their time is over.
///
/// `axum::serve` sets no deadline on headers, and one slow client a thousand times over would hold every descriptor.
async fn serve(listener: TcpListener, app: Router, running: &Running, stop: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
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
        let app = app.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            app.clone().oneshot(request)
        });
        tokio::spawn(connections.watch(http.serve_connection(TokioIo::new(stream), service)));
    }
    drop(listener);
    running.stop_sending();
    if tokio::time::timeout(GRACE, connections.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}
