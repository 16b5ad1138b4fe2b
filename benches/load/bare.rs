//! The frameworks by themselves: they answer the same body, once through `Json`, once as bytes made beforehand, and once
//! through `Json` with the same header fields too.

use std::net::SocketAddr;
use std::sync::LazyLock;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use rocket::config::{Config, Ident, LogLevel};
use rocket::http::{ContentType, Status};
use rocket::response::Responder;
use rocket::shield::Shield;
use rocket::{Shutdown, fairing::AdHoc};
use serde::Serialize;

#[derive(Serialize)]
struct Checked {
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

fn valid() -> Checked {
    Checked { valid: true, product_id: 1, expires_at: "2035-06-13T15:06:40Z", used_count: 1, remaining_uses: -1 }
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

/// The fields of an answer beside those that the frameworks set, as long as the real ones; each of which is made anew, while
/// these stand here.
const FIELDS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("ratelimit-policy", "\"validate\";q=100000000;w=60"),
    ("ratelimit", "\"validate\";r=99999999;t=60"),
    ("x-request-id", "0123456789abcdef0123456789abcdef"),
    ("x-content-type-options", "nosniff"),
];

/// How much is made for each answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// The body.
    Json,
    /// Nothing.
    Bytes,
    /// The body and [`FIELDS`].
    Whole,
}

pub fn axum(answers: Answers) {
    let json = |bytes: Bytes| ([(header::CONTENT_TYPE, "application/json")], bytes).into_response();
    let bytes = answers == Answers::Bytes;
    let whole =
        move |answer: Response| if answers == Answers::Whole { (FIELDS, answer).into_response() } else { answer };
    let validate =
        move || async move { if bytes { json(VALID.clone()) } else { whole(axum::Json(valid()).into_response()) } };
    let product = move |uri: axum::http::Uri| async move {
        match forged(uri.query()) {
            true => whole((StatusCode::UNAUTHORIZED, axum::Json(failure())).into_response()),
            false if bytes => json(FETCHED.clone()),
            false => whole(axum::Json(fetched()).into_response()),
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

/// A body with [`FIELDS`].
struct Whole(Vec<u8>);

impl<'r> Responder<'r, 'static> for Whole {
    fn respond_to(self, _: &'r rocket::Request<'_>) -> rocket::response::Result<'static> {
        let mut response = rocket::Response::new();
        response.set_header(ContentType::JSON);
        for (name, value) in &FIELDS {
            response.set_header(rocket::http::Header::new(*name, *value));
        }
        response.set_sized_body(self.0.len(), std::io::Cursor::new(self.0));
        Ok(response)
    }
}

#[rocket::get("/api/validate")]
fn validate_whole() -> Whole {
    Whole(serde_json::to_vec(&valid()).unwrap())
}

#[rocket::get("/api/product")]
fn product_whole() -> Whole {
    Whole(serde_json::to_vec(&fetched()).unwrap())
}

pub fn rocket(answers: Answers) {
    let shutdown = rocket::config::Shutdown { ctrlc: false, grace: 0, mercy: 0, ..rocket::config::Shutdown::default() };
    let port = support::free_port();
    let config = Config { port, log_level: LogLevel::Off, shutdown, ..Config::release_default() };
    let routes = match answers {
        Answers::Json => rocket::routes![validate_json, product_json],
        Answers::Bytes => rocket::routes![validate_bytes, product_bytes],
        Answers::Whole => rocket::routes![validate_whole, product_whole],
    };
    let whole = answers == Answers::Whole;
    let ident = if whole { Ident::none() } else { Ident::default() };
    let shield = if whole { Shield::new() } else { Shield::default() };
    let config = Config { ident, ..config };
    let app = rocket::custom(config).attach(shield).mount("/", routes).attach(AdHoc::on_liftoff(
        "Announcement",
        move |rocket| {
            Box::pin(async move {
                announce(([127, 0, 0, 1], port).into());
                let shutdown: Shutdown = rocket.shutdown();
                tokio::spawn(async move {
                    terminated().await;
                    shutdown.notify();
                });
            })
        },
    ));
    // As `#[launch]` does it.
    rocket::execute(app.launch()).unwrap();
}

pub fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}

pub async fn terminated() {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap().recv().await;
}
