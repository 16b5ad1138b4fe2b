//! A service whose actual answers are the examples in the document.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use http::Method;
use serde_json::{Value, json};

use super::responses;
use crate::error::ErrorCode;
use crate::http::{Call, Endpoint};
use crate::mail::{MailError, Mailer, Message};
use crate::store::MemoryStore;
use crate::{Clock, Delivery, Entropy};

const SECRET: &str = "the-platforms-secret";
const TOKEN: &str = "the-sellers-own-token";

/// A clock that always shows the same time.
#[derive(Debug)]
struct Moment(DateTime<Utc>);

impl Clock for Moment {
    fn now(&self) -> DateTime<Utc> {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug)]
struct Same;

impl Entropy for Same {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }
}

#[derive(Debug)]
struct NoPost;

#[async_trait]
impl Mailer for NoPost {
    async fn send(&self, _: &Message) -> Result<(), MailError> {
        Ok(())
    }
}

/// A service on `store` whose clock is `days` after the start of the example.
fn shop(store: &Arc<MemoryStore>, days: i64) -> Delivery {
    let now = DateTime::from_timestamp(1_795_255_200, 0).unwrap() + TimeDelta::days(days);
    let signing = "what-keys-are-signed-with".parse().unwrap();
    Delivery::builder(store.clone(), Arc::new(NoPost), signing)
        .webhook_secret(SECRET.parse().unwrap())
        .admin_token(TOKEN.parse().unwrap())
        .clock(Arc::new(Moment(now)))
        .entropy(Arc::new(Same))
        .build()
}

async fn ask(delivery: &Delivery, endpoint: Endpoint, key: &str) -> Value {
    let token = format!("Bearer {TOKEN}").parse().unwrap();
    let seller =
        |body: Value| Call::new(Method::POST).header(http::header::AUTHORIZATION, token).json(body.to_string());
    let call = match endpoint {
        Endpoint::Validate => Call::new(Method::GET).query(format!("key={key}")),
        Endpoint::Product => Call::new(Method::GET).query(format!("key={key}&product_id=1")),
        Endpoint::Order => Call::new(Method::POST).json(
            json!({ "secret": SECRET, "order_id": "2026-1001", "product_id": 1, "customer_email": "ada@example.com" })
                .to_string(),
        ),
        Endpoint::AddProduct => seller(json!({ "name": "Guide", "content": "# Guide", "price": 9.99 })),
        Endpoint::IssueKey => seller(json!({ "product_id": 1, "customer_email": "ada@example.com", "max_uses": 1 })),
        Endpoint::AddPost => seller(json!({ "title": "News", "category": "releases", "content": "A new chapter." })),
        Endpoint::Products | Endpoint::Posts | Endpoint::OpenApi => Call::new(Method::GET),
    };
    serde_json::from_slice(endpoint.call(delivery, call).await.body()).unwrap()
}

/// A shop that has sold something, and the key.
async fn sold(store: &Arc<MemoryStore>) -> (Delivery, String) {
    let shop = shop(store, 0);
    ask(&shop, Endpoint::AddProduct, "").await;
    ask(&shop, Endpoint::AddPost, "").await;
    let issued = ask(&shop, Endpoint::IssueKey, "").await;
    (shop, issued["api_key"].as_str().unwrap().to_owned())
}

/// What an endpoint answers where all is well.
pub(super) async fn success(endpoint: Endpoint) -> Value {
    let store = Arc::new(MemoryStore::new());
    let shop = match endpoint {
        Endpoint::AddProduct | Endpoint::AddPost => (shop(&store, 0), String::new()),
        _ => sold(&store).await,
    };
    ask(&shop.0, endpoint, &shop.1).await
}

/// What an endpoint answers with each of its codes.
pub(super) async fn refusals(endpoint: Endpoint) -> Vec<(ErrorCode, Value)> {
    let mut refusals = Vec::new();
    for &code in endpoint.codes() {
        let answer = match (endpoint, code) {
            (Endpoint::Validate, ErrorCode::InvalidKey | ErrorCode::ExpiredKey | ErrorCode::ExceededUses) => {
                not_valid(code).await
            }
            _ => responses::plain(code),
        };
        assert_eq!(answer["error"]["code"], code.as_str());
        refusals.push((code, answer));
    }
    refusals
}

/// A key that is refused says so in the body too.
async fn not_valid(code: ErrorCode) -> Value {
    let store = Arc::new(MemoryStore::new());
    let (now, key) = sold(&store).await;
    match code {
        ErrorCode::ExceededUses => {
            ask(&now, Endpoint::Product, &key).await;
            ask(&now, Endpoint::Validate, &key).await
        }
        ErrorCode::ExpiredKey => ask(&shop(&store, 366), Endpoint::Validate, &key).await,
        _ => ask(&now, Endpoint::Validate, "dlv_unknown").await,
    }
}
