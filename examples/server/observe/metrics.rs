//! `GET /metrics`, on a separate address, so that the metrics are not as public as the API.
//!
//! The listener of `metrics-exporter-prometheus` 0.18 is not used. It limits neither the number of connections nor how
//! long one may stay open, and if a connection cannot be accepted, it tries again without a pause. Besides, each scrape
//! here first asks the store how many messages wait, and that listener has no hook for this.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delivery_core::{Delivery, describe_metrics, explain};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics::{describe_gauge, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::Refusal;
use crate::connections::alarm::Timer;
use crate::connections::places::Places;

const PATH: &str = "/metrics";
/// The content type of Prometheus' text format, version 0.0.4.
const TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// Upper bounds of the buckets for durations, in seconds: from a validation in memory to a disk that hangs.
const SECONDS: [f64; 14] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Upper bounds of the buckets for the number of operations that share a commit.
const OPERATIONS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
/// How often recorded values are merged into the buckets. Values that nobody collects would otherwise use ever more
/// memory.
const UPKEEP: Duration = Duration::from_secs(5);
/// How long the store may take to count the messages that wait.
const PATIENCE: Duration = Duration::from_secs(3);
/// The maximum number of connections at once. Further ones wait.
const CONNECTIONS: usize = 256;
/// How long a connection may stay open, even if its client reads nothing. Prometheus reconnects.
const LONGEST: Duration = Duration::from_secs(30);
/// How long to wait after a connection could not be accepted, for example because no file descriptor was free.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a client may take to send the head of a request.
const HEADERS: Duration = Duration::from_secs(5);

/// The metrics of this process, and the socket at which they are served.
pub(crate) struct Metrics {
    listener: TcpListener,
    handle: PrometheusHandle,
}

impl Metrics {
    /// Listens on `address`, and starts to collect metrics.
    pub(crate) async fn listen(address: SocketAddr) -> Result<Self, Refusal> {
        let listener = TcpListener::bind(address).await;
        let listener = listener
            .map_err(|error| format!("METRICS_BIND (--metrics-bind): {address} cannot be listened on: {error}"))?;
        let suffix = |suffix: &str| Matcher::Suffix(suffix.to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(suffix("_seconds"), &SECONDS)?;
        let handle = builder.set_buckets_for_metric(suffix("_operations"), &OPERATIONS)?.install_recorder()?;
        describe_metrics();
        describe_gauge!("delivery_store_answers", "Whether the store answers: 1 or 0");
        describe_gauge!("delivery_connections", "Connections that are open, served or in the queue");
        Ok(Self { listener, handle })
    }

    /// The address, whose port may have been chosen by the system.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the metrics until the future is dropped.
    pub(crate) async fn serve(self, delivery: Delivery, places: Option<Places>) {
        let Self { listener, handle } = self;
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            let accepted = async {
                let place = connections.clone().acquire_owned().await.ok()?;
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => return Some((place, stream)),
                        Err(error) => {
                            tracing::warn!(%error, "a connection to the metrics was not accepted");
                            tokio::time::sleep(AGAIN).await;
                        }
                    }
                }
            };
            tokio::select! {
                _ = upkeep.tick() => handle.run_upkeep(),
                Some((place, stream)) = accepted => {
                    let (delivery, places, handle) = (delivery.clone(), places.clone(), handle.clone());
                    tokio::spawn(async move {
                        // The timeout also disconnects a client that reads nothing.
                        let _ = tokio::time::timeout(LONGEST, serve_connection(stream, delivery, places, handle)).await;
                        drop(place);
                    });
                }
                else => {}
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, delivery: Delivery, places: Option<Places>, handle: PrometheusHandle) {
    let service = service_fn(move |request| {
        let (delivery, places, handle) = (delivery.clone(), places.clone(), handle.clone());
        async move { Ok::<_, Infallible>(answer(&request, &delivery, places.as_ref(), &handle).await) }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(HEADERS).timer(Timer::new());
    // Errors are ignored: clients may disconnect at any time.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: &Request<Incoming>,
    delivery: &Delivery,
    places: Option<&Places>,
    handle: &PrometheusHandle,
) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH || !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = Response::new(Full::from("metrics are at GET /metrics\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let backlog = tokio::time::timeout(PATIENCE, delivery.backlog()).await;
    if let Ok(Err(error)) = &backlog {
        tracing::debug!("what waits cannot be counted: {}", explain(error));
    }
    let answers = matches!(backlog, Ok(Ok(_)));
    gauge!("delivery_store_answers").set(if answers { 1.0 } else { 0.0 });
    if let Some(places) = places {
        #[expect(clippy::cast_precision_loss, reason = "no machine has as many connections as a float can count")]
        gauge!("delivery_connections").set(places.open() as f64);
    }
    let mut response = Response::new(Full::from(handle.render()));
    response.headers_mut().insert(header::CONTENT_TYPE, TYPE);
    response
}
