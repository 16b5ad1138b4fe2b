//! The frameworks by themselves: they answer the same bytes, once through `Json`, once as bytes made beforehand.

use std::net::SocketAddr;
use std::sync::LazyLock;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use rocket::config::{Config, LogLevel};
use rocket::http::{ContentType, Status};
use rocket::{Shutdown, fairing::AdHoc};
use serde::Serialize;

#[derive(Serialize)]
struct Standing {
    valid: bool,
    product_id: i64,
    expires_at: &'static str,
    used_count: u64,
    remaining_uses: i64,
}

#[derive(Serialize)]
struct Fetched {
    product: Product,
}

#[derive(Serialize)]
struct Product {
    id: i64,
    name: &'static str,
    r#type: &'static str,
    content: &'static str,
}

#[derive(Serialize)]
struct Failure {
    error: Problem,
}

#[derive(Serialize)]
struct Problem {
    code: &'static str,
    message: &'static str,
}

static CONTENT: LazyLock<String> = LazyLock::new(|| "A line of Markdown.\n".repeat(100));

fn valid() -> Standing {
    Standing { valid: true, product_id: 1, expires_at: "2035-06-13T15:06:40Z", used_count: 1, remaining_uses: -1 }
}

fn fetched() -> Fetched {
    Fetched { product: Product { id: 1, name: "Guide", r#type: "digital", content: &CONTENT } }
}

fn failure() -> Failure {
    Failure { error: Problem { code: "INVALID_KEY", message: "The key is not valid." } }
}

fn made(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).unwrap().into()
}

static VALID: LazyLock<Bytes> = LazyLock::new(|| made(&valid()));
static FETCHED: LazyLock<Bytes> = LazyLock::new(|| made(&fetched()));

/// Whoever asks with a forged key gets the refusal: its text ends so in the load.
fn forged(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.contains("forged"))
}

pub fn axum(bytes: bool) {
    let json = |bytes: Bytes| ([(header::CONTENT_TYPE, "application/json")], bytes).into_response();
    let validate = move || async move { if bytes { json(VALID.clone()) } else { axum::Json(valid()).into_response() } };
    let product = move |uri: axum::http::Uri| async move {
        match forged(uri.query()) {
            true => (StatusCode::UNAUTHORIZED, axum::Json(failure())).into_response(),
            false if bytes => json(FETCHED.clone()),
            false => axum::Json(fetched()).into_response() as Response,
        }
    };
    let app = Router::new().route("/api/validate", get(validate)).route("/api/product", get(product));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        announce(listener.local_addr().unwrap());
        axum::serve(listener, app).with_graceful_shutdown(terminated()).await.unwrap();
    });
}

#[rocket::get("/api/validate")]
fn validate_json() -> (ContentType, Vec<u8>) {
    (ContentType::JSON, serde_json::to_vec(&valid()).unwrap())
}

#[rocket::get("/api/validate")]
fn validate_bytes() -> (ContentType, &'static [u8]) {
    (ContentType::JSON, &VALID)
}

#[rocket::get("/api/product")]
fn product_json() -> (Status, (ContentType, Vec<u8>)) {
    (Status::Ok, (ContentType::JSON, serde_json::to_vec(&fetched()).unwrap()))
}

#[rocket::get("/api/product")]
fn product_bytes() -> (Status, (ContentType, &'static [u8])) {
    (Status::Ok, (ContentType::JSON, &FETCHED))
}

pub fn rocket(bytes: bool) {
    let shutdown = rocket::config::Shutdown { ctrlc: false, grace: 0, mercy: 0, ..rocket::config::Shutdown::default() };
    let port = crate::private::free_port();
    let config = Config { port, log_level: LogLevel::Off, shutdown, ..Config::release_default() };
    let routes = if bytes {
        rocket::routes![validate_bytes, product_bytes]
    } else {
        rocket::routes![validate_json, product_json]
    };
    let app = rocket::custom(config).mount("/", routes).attach(AdHoc::on_liftoff("Announcement", move |rocket| {
        Box::pin(async move {
            announce(([127, 0, 0, 1], port).into());
            let shutdown: Shutdown = rocket.shutdown();
            tokio::spawn(async move {
                terminated().await;
                shutdown.notify();
            });
        })
    }));
    // As `#[launch]` does it.
    rocket::execute(app.launch()).unwrap();
}

pub fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}

pub async fn terminated() {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap().recv().await;
}
