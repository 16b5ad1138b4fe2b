//! What several of these tests do: calls to a service, directly and on both frameworks, and short ways to say what is sold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Reply};
use delivery_core::key::Actor;
use delivery_core::mail::{MailError, Mailer, Message, Worked};
use delivery_core::order::{Order, OrderRef, Source};
use delivery_core::product::ProductId;
use delivery_core::seller::{Head, Seller};
use delivery_core::terms::{OwnTerms, UseLimit};
use http::{HeaderValue, Method, header};
use http_body_util::BodyExt;
use rocket::config::{Config, LogLevel};
use rocket::figment::Figment;
use rocket::local::asynchronous::Client;
use rocket::{Build, Rocket};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// What the platform proves itself with to a `delivery_testing::Shop`.
pub const SECRET: &str = "the platform's secret";
/// What the seller proves itself with to a `delivery_testing::Shop`.
pub const TOKEN: &str = "the-seller's-token";

/// A request, and the status and body of its answer.
#[async_trait]
pub trait Host {
    async fn ask(&self, method: Method, path: &str, headers: &[(&str, String)], body: &str) -> (u16, String);
}

pub struct Axum(pub Router);

#[async_trait]
impl Host for Axum {
    async fn ask(&self, method: Method, path: &str, headers: &[(&str, String)], body: &str) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = self.0.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

pub struct OnRocket(Client);

impl OnRocket {
    pub async fn launch(rocket: Rocket<Build>) -> Self {
        Self(Client::untracked(rocket).await.unwrap())
    }
}

#[async_trait]
impl Host for OnRocket {
    async fn ask(&self, method: Method, path: &str, headers: &[(&str, String)], body: &str) -> (u16, String) {
        let mut request = self.0.req(method.as_str().parse().unwrap(), path.to_owned()).body(body);
        for (name, value) in headers {
            request.add_header(rocket::http::Header::new((*name).to_owned(), value.clone()));
        }
        let answer = request.dispatch().await;
        (answer.status().code, answer.into_string().await.unwrap_or_default())
    }
}

/// A configuration of Rocket that logs nothing.
pub fn quiet() -> Figment {
    Figment::from(Config { log_level: LogLevel::Off, ..Config::debug_default() })
}

/// The host's own sign-in, which counts how often it was asked.
#[derive(Debug, Default)]
pub struct Staff(pub AtomicUsize);

#[async_trait]
impl Seller for Staff {
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let cookie = head.headers.get(header::COOKIE)?.to_str().ok()?;
        cookie.strip_prefix("staff=").and_then(|name| name.parse().ok())
    }
}

/// A mailer that accepts an e-mail when it is allowed to.
#[derive(Debug)]
pub struct Gate {
    pub begun: Semaphore,
    pub allowed: Semaphore,
    pub accepted: AtomicUsize,
}

impl Gate {
    pub fn closed() -> Arc<Self> {
        let (begun, allowed) = (Semaphore::new(0), Semaphore::new(0));
        Arc::new(Self { begun, allowed, accepted: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Mailer for Gate {
    async fn send(&self, _: &Message) -> Result<(), MailError> {
        self.begun.add_permits(1);
        self.allowed.acquire().await.unwrap().forget();
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The call, with the seller's token.
pub fn by_seller(call: Call) -> Call {
    call.header(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {TOKEN}")).unwrap())
}

/// The value of a header field of an answer.
pub fn header_of<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    reply.headers().iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_str().unwrap())
}

/// The status and the JSON of an answer.
pub async fn call(delivery: &Delivery, endpoint: Endpoint, call: Call) -> (u16, Value) {
    let reply = endpoint.call(delivery, call).await;
    (reply.status().as_u16(), serde_json::from_slice(&reply.body()).unwrap())
}

/// The platform sends an order.
pub async fn order(delivery: &Delivery, id: &str, product: i64) -> (u16, Value) {
    let body = json!({ "order_id": id, "product_id": product, "customer_email": "a@example.com", "secret": SECRET });
    call(delivery, Endpoint::Order, Call::new(Method::POST).json(body.to_string())).await
}

/// Someone has paid for the first product.
pub fn paid(id: &str) -> Order {
    let reference = OrderRef { source: Source::webhook(), id: id.parse().unwrap() };
    Order { reference, product: product(1), email: "buyer@example.com".parse().unwrap() }
}

/// Sends what is due, and returns how many e-mails and webhooks were sent, deferred and failed.
pub async fn work(delivery: &Delivery) -> (usize, usize, usize) {
    let Worked { sent, deferred, failed, .. } = delivery.maintenance().outbox().work().await.unwrap();
    (sent, deferred, failed)
}

pub fn product(id: i64) -> ProductId {
    ProductId::new(id).unwrap()
}

/// Terms of a product or key with this number of uses.
pub fn uses(count: i64) -> OwnTerms {
    OwnTerms { limit: UseLimit::from_count(count).ok(), ..OwnTerms::default() }
}
