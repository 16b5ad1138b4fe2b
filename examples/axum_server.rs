//! The complete server on axum: `cargo run --release --example axum_server`. `--help` lists its settings.

mod server;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use clap::Parser;
use delivery_core::Delivery;
use serde_json::{Value, json};
use server::assemble::{Service, assemble};
use server::settings::Arguments;
use server::{Refusal, explain};
use tokio::net::TcpListener;

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
    let settings = Arguments::parse().check()?;
    server::log::start()?;
    let listener = TcpListener::bind(settings.bind)
        .await
        .map_err(|error| format!("BIND (--bind): {} cannot be listened on: {error}", settings.bind))?;
    let address = listener.local_addr()?;
    let Service { delivery, running, secrets } = assemble(&settings, address).await?;
    if let Some(greeting) = server::welcome::greeting(&secrets, &settings.data_dir, address) {
        println!("{greeting}");
    }
    println!("listening on http://{address}");
    serve(listener, app(delivery)).await?;
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
async fn serve(listener: TcpListener, app: Router) -> Result<(), Refusal> {
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(async move {
        server::signal::stop().await;
        // The other end waits below.
        let _ = stopping.send(());
    });
    let out_of_time = async {
        if stopped.await.is_ok() {
            tokio::time::sleep(GRACE).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = out_of_time => {
            tracing::warn!("some requests did not end in time and were cut off");
            Ok(())
        }
    }
}
