//! A shop as the platform, the seller and the buyers know it, by HTTP alone. Its time is that of the timeline.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::delivery::{Settings, Stores};
use delivery_core::http::{Call, Endpoint, PlatformPath};
use delivery_core::{Clock, Delivery};
use delivery_testing::{ManualClock, RecordingMailer, SeededEntropy};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::file::{Event, Timeline};
use super::proof::{SECRET, proof};
use crate::fixtures::call;

pub struct Shop {
    delivery: Delivery,
    outside: Outside,
}

/// What a server that is killed does not take with it, beside its store.
struct Outside {
    env: BTreeMap<String, String>,
    clock: Arc<ManualClock>,
    mailer: Arc<RecordingMailer>,
    entropy: Arc<SeededEntropy>,
}

/// A key as the seller sees it.
#[derive(Debug, Deserialize)]
pub struct Key {
    pub id: String,
    pub product_id: i64,
    pub status: String,
    pub expires_at: String,
    pub max_uses: i64,
    pub used_count: u64,
    pub remaining_uses: i64,
}

impl Outside {
    /// A server with these settings. Every secret is the same.
    fn serve(&self, stores: impl Into<Stores>) -> Delivery {
        let setting = |name: &'static str| {
            if name.starts_with("LIMIT_") {
                return Some("100000".to_owned());
            }
            let is_secret = name.ends_with("_SECRET") || name.ends_with("_TOKEN");
            if is_secret { Some(SECRET.to_owned()) } else { self.env.get(name).cloned() }
        };
        let builder = Settings::read(setting).unwrap().builder(stores, self.mailer.clone());
        builder.clock(self.clock.clone()).entropy(self.entropy.clone()).build()
    }
}

impl Shop {
    /// A shop with the products of the timeline, opened at this time.
    pub async fn open(stores: impl Into<Stores>, timeline: &Timeline, at: Option<DateTime<Utc>>) -> Self {
        let outside = Outside {
            env: timeline.env.clone(),
            clock: Arc::new(at.map_or_else(ManualClock::default, ManualClock::at)),
            mailer: Arc::default(),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        let shop = Self { delivery: outside.serve(stores), outside };
        for (product, number) in timeline.products.iter().zip(1..) {
            let mut product = product.clone();
            product["name"] = format!("Product {number}").into();
            product["content"] = format!("Content {number}").into();
            shop.order(Endpoint::AddProduct, &product).await.unwrap();
        }
        shop
    }

    /// Another server takes the place of the one that ended, over the store that that one left.
    pub async fn restart(&mut self, stores: impl Into<Stores>) {
        self.delivery = self.outside.serve(stores);
        self.look_around().await;
    }

    pub async fn close(self) {
        self.delivery.close().await;
    }

    /// Lets time pass until then.
    pub async fn wait_until(&self, at: DateTime<Utc>) {
        let pause = at - self.outside.clock.now();
        if pause > TimeDelta::zero() {
            self.outside.clock.advance(pause.to_std().unwrap());
            self.look_around().await;
        }
    }

    /// Does what a started service does now and then.
    async fn look_around(&self) {
        self.delivery.maintenance().notify_expiring().await.unwrap();
        self.delivery.maintenance().mark_expired().await.unwrap();
        self.delivery.maintenance().prune_requests().await.unwrap();
        self.work().await;
        self.delivery.maintenance().prune_events().await.unwrap();
    }

    /// Does what a started service does at once.
    pub async fn work(&self) {
        self.delivery.maintenance().apply_events().await.unwrap();
        self.delivery.maintenance().answer_lost().await.unwrap();
        self.delivery.maintenance().outbox().work().await.unwrap();
    }

    /// The platform sends an event, which is its `number`th.
    pub async fn send(&self, platform: &str, event: &Event, number: usize) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &event.headers {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let kind = if event.is_form() { "application/x-www-form-urlencoded" } else { "application/json" };
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
        let id = event.headers.get("webhook-id").cloned().unwrap_or_else(|| format!("msg_{number}"));
        let (body, time) = (event.body(), self.outside.clock.now().timestamp());
        let (fields, query) = proof(platform, &body, time, &id);
        for (name, value) in fields {
            headers.insert(name, value.parse().unwrap());
        }
        let query = (!query.is_empty()).then_some(query);
        let sent = Call { query, headers, body: body.into(), ..Call::new(Method::POST) };
        let path = PlatformPath::built_in().find(|path| path.name() == platform).unwrap();
        self.ask(Endpoint::Platform(path), sent).await.map(drop)
    }

    /// What the newest event in the inbox came to.
    pub async fn outcome(&self) -> Option<String> {
        let listed = self.list(Endpoint::Inbox, "limit=1").await;
        listed["inbox"][0]["outcome"].as_str().map(ToOwned::to_owned)
    }

    /// The numbers of events that need attention, newest first.
    pub async fn waiting(&self) -> Vec<Value> {
        let mut listed = self.list(Endpoint::Inbox, "limit=100&outcome=needs_attention").await;
        let Value::Array(waiting) = listed["inbox"].take() else { panic!("{listed}") };
        waiting.into_iter().map(|mut event| event["id"].take()).collect()
    }

    /// All keys, newest first.
    pub async fn keys(&self) -> Vec<Key> {
        let mut listed = self.list(Endpoint::Keys, "limit=100").await;
        serde_json::from_value(listed["keys"].take()).unwrap()
    }

    /// The newest key of a product that is not revoked.
    pub async fn key_of(&self, product: i64) -> Result<Key, String> {
        let mut keys = self.keys().await.into_iter();
        let found = keys.find(|key| key.product_id == product && key.status != "revoked");
        found.ok_or_else(|| format!("product {product} has no key"))
    }

    /// The kinds of all e-mails.
    pub async fn kinds(&self) -> Vec<String> {
        let listed = self.list(Endpoint::Messages, "limit=100").await;
        let messages = listed["messages"].as_array().unwrap();
        messages.iter().map(|message| message["kind"].as_str().unwrap().to_owned()).collect()
    }

    /// To whom e-mails were sent, one for each.
    pub fn recipients(&self) -> Vec<String> {
        self.outside.mailer.accepted().iter().map(|message| message.to.to_string()).collect()
    }

    /// The text of a key, as an e-mail brought it.
    pub fn text_of(&self, key: &Key) -> Result<String, String> {
        for message in self.outside.mailer.accepted() {
            let mut words = message.text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let is_it = |word: &&str| self.delivery.verify(word).is_some_and(|id| id.to_string() == key.id);
            if let Some(text) = words.find(is_it) {
                return Ok(text.to_owned());
            }
        }
        Err(format!("no e-mail has the key of product {} that expires at {}", key.product_id, key.expires_at))
    }

    /// What somebody is answered who asks whether a key is valid.
    pub async fn validate(&self, text: &str) -> (u16, Value) {
        call(&self.delivery, Endpoint::Validate, bearing(Call::new(Method::GET), text)).await
    }

    /// Fetches a product with a key.
    pub async fn fetch(&self, text: &str, product: i64) -> Result<(), String> {
        let fetch = Call::new(Method::GET).query(format!("product_id={product}"));
        self.ask(Endpoint::Product, bearing(fetch, text)).await.map(drop)
    }

    /// A buyer asks for lost keys.
    pub async fn ask_for_keys(&self, address: &str) -> Result<(), String> {
        let body = json!({ "customer_email": address }).to_string();
        self.ask(Endpoint::Resend, Call::new(Method::POST).json(body)).await.map(drop)
    }

    /// The seller has something done.
    pub async fn order(&self, endpoint: Endpoint, body: &Value) -> Result<(), String> {
        let order = Call::new(Method::POST).json(body.to_string());
        self.ask(endpoint, bearing(order, SECRET)).await.map(drop)
    }

    /// The seller looks at a list.
    async fn list(&self, endpoint: Endpoint, query: &str) -> Value {
        self.ask(endpoint, bearing(Call::new(Method::GET).query(query), SECRET)).await.unwrap()
    }

    /// The answer, if it is no refusal.
    async fn ask(&self, endpoint: Endpoint, asked: Call) -> Result<Value, String> {
        match call(&self.delivery, endpoint, asked).await {
            (200, answer) => Ok(answer),
            (status, answer) => Err(format!("{} answers {status} {answer}", endpoint.path())),
        }
    }
}

fn bearing(call: Call, text: &str) -> Call {
    call.header(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {text}")).unwrap())
}
