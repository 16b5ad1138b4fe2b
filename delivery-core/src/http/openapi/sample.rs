//! A sample service. Its replies become the examples in the OpenAPI document.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use http::Method;
use object_store::memory::InMemory;
use serde_json::Value;

use super::{bodies, responses};
use crate::delivery::Builder;
use crate::error::ErrorCode;
use crate::http::describe::Kind;
use crate::http::parameter::Location;
use crate::http::row::Handler;
use crate::http::{Call, Endpoint, PlatformPath};
use crate::key::{Denied, Key, Rule};
use crate::mail::{MailError, Mailer, Message};
use crate::platform::{Gumroad, Secrets};
use crate::store::SqliteStore;
use crate::{Clock, Delivery, Entropy};

/// The object store with the bytes of the example file.
static OBJECTS: LazyLock<Arc<InMemory>> = LazyLock::new(Arc::default);

const SECRET: &str = "the-platforms-secret";
const TOKEN: &str = "the-sellers-own-token";

/// A clock that always returns the same time.
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

/// A source of "random" bytes for reproducible examples. The bytes differ between calls, but are the same in each run
/// of the tests.
#[derive(Debug, Default)]
struct Counted(AtomicU8);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0x5a + self.0.fetch_add(1, Ordering::Relaxed));
    }
}

/// A rule that refuses every use.
#[derive(Debug)]
struct Closed;

impl Rule for Closed {
    fn judge(&self, _key: &Key, _at: DateTime<Utc>) -> Result<(), Denied> {
        Err(Denied::new("DENIED", ErrorCode::Denied.message()))
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

async fn store() -> (tempfile::TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("delivery.db")).await.unwrap();
    (folder, Arc::new(store))
}

/// Builds a sample service that uses `store`. The service's clock always shows the same time, `days` days after the
/// start of the example.
fn shop(store: &Arc<SqliteStore>, days: i64) -> Delivery {
    builder(store, days).build()
}

fn builder(store: &Arc<SqliteStore>, days: i64) -> Builder {
    let now = DateTime::from_timestamp(1_795_255_200, 0).unwrap() + TimeDelta::days(days);
    let signing = "what-keys-are-signed-with".parse().unwrap();
    Delivery::builder(store.clone(), Arc::new(NoPost), signing)
        .webhook_secret(SECRET.parse().unwrap())
        .admin_token(TOKEN.parse().unwrap())
        .platform(Gumroad::new(&Secrets::new([SECRET]).unwrap()).unwrap())
        .clock(Arc::new(Moment(now)))
        .entropy(Arc::new(Counted::default()))
        .files(OBJECTS.clone())
}

async fn ask(delivery: &Delivery, endpoint: Endpoint, key: &str) -> Value {
    let row = endpoint.row();
    let docs = &row.openapi;
    let in_query = docs.parameters.iter().filter(|parameter| matches!(parameter.location, Location::Query));
    let query = in_query.filter_map(|parameter| {
        let value = match parameter.kind {
            Kind::Key => key.to_owned(),
            Kind::KeyId if parameter.is_required => id_of(delivery, key),
            _ => parameter.sample.or(parameter.example)?.to_owned(),
        };
        Some(format!("{}={value}", parameter.name))
    });
    let query = query.collect::<Vec<_>>().join("&");
    let call = match (&row.handler, &docs.body) {
        // The replies to all platforms are the same. The examples use Gumroad, because its requests need no signature.
        (Handler::SignedWebhook(_), _) => Call::new(Method::POST).query(format!("token={SECRET}")).json("{}"),
        (Handler::Upload(_), _) => {
            let pdf = "application/pdf".parse().unwrap();
            let call = Call::new(Method::PUT).query(query).header(http::header::CONTENT_TYPE, pdf);
            Call { body: "%PDF".into(), ..call }
        }
        (_, Some(body)) => {
            let mut example = bodies::example(body);
            for field in body.fields {
                match field.kind {
                    Kind::KeyId => example[field.name] = id_of(delivery, key).into(),
                    Kind::RowId(list) if field.is_required => example[field.name] = newest(delivery, list).await,
                    _ => {}
                }
            }
            Call::new(Method::POST).json(example.to_string())
        }
        (_, None) => Call::new(Method::GET).query(query),
    };
    let call = match docs.tag {
        "seller" => call.header(http::header::AUTHORIZATION, format!("Bearer {TOKEN}").parse().unwrap()),
        _ => call,
    };
    let endpoint = match endpoint {
        Endpoint::Platform(_) => Endpoint::Platform(PlatformPath::new("/api/webhook/gumroad").unwrap()),
        endpoint => endpoint,
    };
    let mut reply: Value = serde_json::from_slice(&endpoint.call(delivery, call).await.body()).unwrap();
    // Keep only the first three lines, because the whole HTML of an e-mail would make up most of the document.
    if let Some(html) = reply["html"].as_str() {
        reply["html"] = html.lines().take(3).chain(["…"]).collect::<Vec<_>>().join("\n").into();
    }
    reply
}

fn id_of(delivery: &Delivery, key: &str) -> String {
    delivery.verify(key).unwrap().to_string()
}

/// Returns the id of the newest item in the list at `/api/admin/{list}`.
async fn newest(delivery: &Delivery, list: &str) -> Value {
    let path = format!("/api/admin/{list}");
    let endpoint = Endpoint::all().find(|endpoint| endpoint.path() == path).unwrap();
    Box::pin(ask(delivery, endpoint, "")).await[list][0]["id"].clone()
}

/// Creates a service that has issued a key and received a platform event. Returns the service and the text of the key.
async fn sold(store: &Arc<SqliteStore>) -> (Delivery, String) {
    let shop = shop(store, 0);
    ask(&shop, Endpoint::AddProduct, "").await;
    ask(&shop, Endpoint::AddPost, "").await;
    ask(&shop, Endpoint::PutFile, "").await;
    let issued = ask(&shop, Endpoint::IssueKey, "").await;
    let platform = PlatformPath::built_in().next().unwrap();
    ask(&shop, Endpoint::Platform(platform), "").await;
    (shop, issued["api_key"].as_str().unwrap().to_owned())
}

/// Returns an endpoint's reply to a successful call.
pub(super) async fn success(endpoint: Endpoint) -> Value {
    let (_folder, store) = store().await;
    let (shop, key) = match (endpoint, &endpoint.row().handler) {
        (_, Handler::File(_)) => return Value::Null,
        // Start without products and posts, because the example replies show the first product and the first post. The
        // function `sold` would already add one of each.
        (Endpoint::AddProduct | Endpoint::AddPost, _) => (shop(&store, 0), String::new()),
        _ => sold(&store).await,
    };
    ask(&shop, endpoint, &key).await
}

/// Returns an error reply of an endpoint for each of its error codes.
pub(super) async fn refusals(endpoint: Endpoint) -> Vec<(ErrorCode, Value)> {
    let mut refusals = Vec::new();
    for &code in endpoint.codes() {
        let answer = match (&endpoint.row().handler, code) {
            (
                Handler::Key(_),
                ErrorCode::InvalidKey | ErrorCode::ExpiredKey | ErrorCode::ExceededUses | ErrorCode::Denied,
            ) => not_valid(endpoint, code).await,
            _ => responses::plain(code),
        };
        assert_eq!(answer["error"]["code"], code.as_str());
        refusals.push((code, answer));
    }
    refusals
}

/// Returns the reply of `endpoint` to a key that is refused with `code`. The endpoint must be one that validates keys.
/// Its reply contains `"valid":false`.
async fn not_valid(endpoint: Endpoint, code: ErrorCode) -> Value {
    let (_folder, store) = store().await;
    let (now, key) = sold(&store).await;
    match code {
        ErrorCode::ExceededUses => {
            ask(&now, Endpoint::Product, &key).await;
            ask(&now, endpoint, &key).await
        }
        ErrorCode::Denied => ask(&builder(&store, 0).rule(Arc::new(Closed)).build(), endpoint, &key).await,
        ErrorCode::ExpiredKey => ask(&shop(&store, 366), endpoint, &key).await,
        _ => ask(&now, endpoint, "dlv_unknown").await,
    }
}
