//! A shop with two products and a key in every condition, the same each time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use delivery_core::Delivery;
use delivery_core::delivery::Issued;
use delivery_core::key::{Keyring, Prefix};
use delivery_core::post::{Category, NewPost};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{KeyQuery, MemoryStore};
use delivery_core::terms::{OwnTerms, UseLimit, Validity};
use delivery_core::testing::{ManualClock, RecordingMailer, SeededEntropy};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::host::{self, BrokenStore};

pub struct Shop {
    pub delivery: Delivery,
    pub mailer: Arc<RecordingMailer>,
    pub clock: Arc<ManualClock>,
    app: Router,
    texts: Vec<(&'static str, String)>,
}

const SECRET: &str = "the platform's secret";
const TOKEN: &str = "the-seller's-token";

impl Shop {
    pub async fn open(broken: bool) -> Self {
        let clock = Arc::new(ManualClock::default());
        let mailer = Arc::new(RecordingMailer::default());
        let keyring = Keyring::new(Prefix::default(), &["a secret for snapshots".parse().unwrap()]).unwrap();
        let (webhook, admin) = (SECRET.parse().unwrap(), TOKEN.parse().unwrap());
        let store = Arc::new(BrokenStore::new(MemoryStore::new()));
        let delivery = Delivery::builder(store.clone(), mailer.clone(), keyring, webhook, admin)
            .clock(clock.clone())
            .entropy(Arc::new(SeededEntropy::new(1)))
            .trusted_proxies(vec!["10.0.0.0/8".parse().unwrap()])
            .build();
        let texts = stock(&delivery, &clock).await;
        store.set_broken(broken);
        let app = host::app(delivery.clone());
        Self { delivery, mailer, clock, app, texts }
    }

    /// Fills in `{VALID}`, `{ADMIN}` and the like.
    pub fn fill(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// Sends a request from `peer`, and writes the answer down, headers in order.
    pub async fn send(&self, mut request: Request<Body>, peer: &str) -> String {
        // Without one the server does not say who is calling.
        if !peer.is_empty() {
            let peer = SocketAddr::new(peer.parse().unwrap(), 50_000);
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        let response = self.app.clone().oneshot(request).await.unwrap();
        let mut headers: Vec<String> =
            response.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        headers.sort();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        format!("{status}\n{}\n\n{}", headers.join("\n"), String::from_utf8(body.to_vec()).unwrap())
    }

    /// What there is: uses, keys, letters.
    pub async fn effects(&self) -> String {
        let keys = self.delivery.keys(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.map(|page| page.items);
        let Ok(keys) = keys else { return "the store is away".to_owned() };
        let uses: u64 = keys.iter().map(delivery_core::key::Key::used).sum();
        let sent = self.delivery.outbox().work().await.map(|_| self.mailer.accepted().len()).unwrap_or_default();
        format!("{} keys, {uses} uses, {sent} letters", keys.len())
    }
}

async fn stock(delivery: &Delivery, clock: &ManualClock) -> Vec<(&'static str, String)> {
    let guide = NewProduct::new("Field Guide").unwrap().content("# Birds\n\n\"Quoted\" & <b>bold</b> 🐦").unwrap();
    delivery.add_product(guide.description("All birds").unwrap().price("9.90".parse().unwrap())).await.unwrap();
    let terms = OwnTerms { validity: Validity::from_days(30).ok(), limit: UseLimit::from_count(5).ok() };
    let map = NewProduct::new("Map").unwrap().content("# Map").unwrap().kind("map").unwrap().terms(terms);
    delivery.add_product(map).await.unwrap();
    for (title, category) in [("Spring", "news"), ("Autumn", "news"), ("How to look", "tips")] {
        clock.advance(Duration::from_secs(1));
        let now = delivery_core::Clock::now(clock);
        let post = NewPost::new(title, Category::new(category).unwrap(), now).unwrap();
        delivery.add_post(post.content("# Text").unwrap()).await.unwrap();
    }
    let issue = async |days, uses| -> Issued {
        let terms = OwnTerms { validity: Validity::from_days(days).ok(), limit: UseLimit::from_count(uses).ok() };
        let (product, email) = (ProductId::new(1).unwrap(), "buyer@example.com".parse().unwrap());
        delivery.issue_by_hand(product, email, terms, false).await.unwrap()
    };
    let [expired, expired_spent] = [issue(1, -1).await, issue(1, 1).await];
    delivery.fetch(expired_spent.key.id(), ProductId::new(1).unwrap()).await.unwrap();
    clock.advance(Duration::from_hours(24));
    let [valid, limited, spent, revoked] =
        [issue(365, -1).await, issue(-1, 2).await, issue(365, 1).await, issue(365, -1).await];
    delivery.fetch(spent.key.id(), ProductId::new(1).unwrap()).await.unwrap();
    delivery.revoke(revoked.key.id()).await.unwrap();
    let text = |issued: &Issued| issued.text.expose().to_owned();
    vec![
        ("VALID", text(&valid)),
        ("LIMITED", text(&limited)),
        ("SPENT", text(&spent)),
        ("EXPIRED", text(&expired)),
        ("EXPIRED_SPENT", text(&expired_spent)),
        ("REVOKED", text(&revoked)),
        ("FORGED", text(&valid).replace("dlv_0", "dlv_1").replace("dlv_2", "dlv_3")[..51].to_owned() + "z"),
        ("SECRET", SECRET.to_owned()),
        ("ADMIN", TOKEN.to_owned()),
    ]
}
