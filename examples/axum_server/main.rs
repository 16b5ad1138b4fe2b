//! The complete server on axum. It is for sellers, who run it without changing it, and for developers who want to change
//! it.
//!
//! `cargo run --example axum_server` starts it, and `--help` lists its settings. To sell from an application of your own,
//! copy `minimal_axum` instead: it is a page of code, and serves the API without the desk.

use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use delivery_core::Delivery;
use server::connections::{Application, Heard, bind, health, serve};
use server::{Stop, docs};
use tower::ServiceExt;

fn main() -> ExitCode {
    server::run(bind, |opened| {
        let app = App(router(opened.delivery.clone(), opened.stop.clone()));
        serve(opened, app)
    })
}

fn router(delivery: Delivery, stop: Stop) -> Router {
    Router::new()
        .route(health::LIVE, any(health))
        .route(health::READY, any(health))
        .with_state((delivery.clone(), stop))
        .route(docs::PATH, any(reference))
        .merge(delivery_axum::router(delivery.clone()))
        .fallback_service(delivery_axum::unknown(delivery))
        // Builds the routes once, as `axum::serve` would, instead of for each request.
        .with_state(())
}

#[derive(Clone)]
struct App(Router);

impl Application for App {
    type Body = Body;

    fn answer(
        &self,
        request: hyper::Request<Heard>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response> + Send + 'static {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        let answered = self.0.clone().oneshot(request);
        async move { answered.await.unwrap_or_else(|never| match never {}) }
    }
}

fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

async fn reference(method: Method) -> Response {
    match docs::page().filter(|_| reads(&method)) {
        Some(page) => {
            let headers = [(header::CONTENT_TYPE, docs::TYPE), (header::CONTENT_SECURITY_POLICY, docs::policy())];
            (headers, page).into_response()
        }
        None => delivery_axum::not_found().await,
    }
}

async fn health(State((delivery, stop)): State<(Delivery, Stop)>, request: Request) -> Response {
    let asked = reads(request.method());
    match health::check(request.uri().path(), &delivery, &stop).await.filter(|_| asked) {
        Some((status, json)) => {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        None => delivery_axum::not_found().await,
    }
}
