//! The same requests over HTTP, on both frameworks: what is answered, kept, issued and e-mailed.

use std::sync::Arc;

use axum::body::Body;
use delivery_core::Delivery;
use delivery_core::platform::{Gumroad, LemonSqueezy, Paddle, Polar, Secrets, Shopify, Standard, Stripe, WooCommerce};
use delivery_core::product::{NewProduct, Refs};
use delivery_core::store::{Entry, EventOutcome, InboxQuery, KeyQuery, MemoryStore};
use delivery_core::terms::{OwnTerms, UseLimit};
use delivery_rocket::DeliveryFairing;
use delivery_testing::{ManualClock, RecordingMailer};
use http_body_util::BodyExt;
use rocket::local::asynchronous::Client;
use tower::ServiceExt;

use super::{Expect, Vector, vectors};

/// A shop with twelve products, the seventh of which has a name on each platform, and 5 uses a piece.
pub struct Shop {
    pub delivery: Delivery,
    pub mailer: Arc<RecordingMailer>,
    rocket: Client,
}

const NAMES: [(&str, &str); 6] = [
    ("gumroad", "QMGY"),
    ("lemonsqueezy", "variant:90210"),
    ("shopify", "variant:39072856"),
    ("woocommerce", "variation:23"),
    ("paddle", "pri_01gsz98e27ak2tyhexptwc58yk"),
    ("polar", "d8dd2de1-21b7-4a41-8bc3-ce909c0cfe23"),
];

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Framework {
    Axum,
    Rocket,
}

impl Shop {
    /// The shop at the time of a vector, with its secrets; `None` where they are no secrets.
    async fn of(platform: &str, vector: &Vector) -> Option<Self> {
        let secrets = if vector.secrets.is_empty() { vec![vector.secret.clone()] } else { vector.secrets.clone() };
        let secrets = Secrets::new(secrets).ok()?;
        let clock = ManualClock::at(chrono::DateTime::from_timestamp(vector.now, 0).unwrap());
        let mailer = Arc::new(RecordingMailer::default());
        let signing = "what-keys-are-signed-with".parse().unwrap();
        let builder = Delivery::builder(Arc::new(MemoryStore::new()), mailer.clone(), signing).clock(Arc::new(clock));
        let builder = match platform {
            "stripe" => builder.platform(Stripe::new(&secrets)),
            "shopify" => builder.platform(Shopify::new(&secrets)),
            "lemonsqueezy" => builder.platform(LemonSqueezy::new(&secrets)),
            "paddle" => builder.platform(Paddle::new(&secrets)),
            "gumroad" => builder.platform(Gumroad::new(&secrets).ok()?),
            "woocommerce" => builder.platform(WooCommerce::new(&secrets)),
            "polar" => builder.platform(Polar::new(&secrets)),
            _ => builder.platform(Standard::new(&secrets).ok()?),
        };
        let delivery = builder.accept_test_events(vector.parsed["action"] != "ignore").build();
        for number in 1..=12 {
            let terms = OwnTerms { limit: UseLimit::from_count(5).ok(), ..OwnTerms::default() };
            let product = NewProduct::new(format!("Product {number}")).unwrap().terms(terms);
            let names = NAMES.iter().map(|(source, name)| (source.parse().unwrap(), name.parse().unwrap()));
            let product = if number == 7 { product.refs(Refs::new(names).unwrap()) } else { product };
            delivery.add_product(product).await.unwrap();
        }
        let rocket = rocket::build().attach(DeliveryFairing::new(delivery.clone()));
        let rocket = Client::untracked(rocket).await.unwrap();
        Some(Self { delivery, mailer, rocket })
    }

    /// The status and the body of the answer.
    async fn send(&self, framework: Framework, platform: &str, vector: &Vector) -> (u16, String) {
        let query = vector.url.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
        let path = format!("/api/webhook/{platform}{query}");
        match framework {
            Framework::Axum => {
                let mut request = http::Request::post(path);
                for (name, value) in &vector.headers {
                    request = request.header(name, value);
                }
                let request = request.body(Body::from(vector.body.clone())).unwrap();
                let router = delivery_axum::router::<()>(self.delivery.clone());
                let answer = router.with_state(()).oneshot(request).await.unwrap();
                let status = answer.status().as_u16();
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                (status, String::from_utf8(body.to_vec()).unwrap())
            }
            Framework::Rocket => {
                let mut request = self.rocket.post(path);
                for (name, value) in &vector.headers {
                    request.add_header(rocket::http::Header::new(name.clone(), value.clone()));
                }
                let answer = request.body(&vector.body).dispatch().await;
                (answer.status().code, answer.into_string().await.unwrap_or_default())
            }
        }
    }

    async fn entries(&self) -> Vec<Entry> {
        self.delivery.events(&InboxQuery { limit: 100, ..InboxQuery::default() }).await.unwrap().items
    }
}

/// What an action comes to in a shop that knows nothing of the order yet.
fn outcome(platform: &str, vector: &Vector) -> Option<EventOutcome> {
    Some(match vector.parsed["action"].as_str().unwrap() {
        "issue" | "renewal" => EventOutcome::Issued,
        "revoke" => EventOutcome::Revoked,
        "restore" => EventOutcome::Restored,
        "partial_refund" => EventOutcome::PartialRefund,
        "remember_customer" => EventOutcome::Remembered,
        "unmapped" | "needs_customer_lookup" => EventOutcome::NeedsAttention,
        "ignore" if !vector.body.starts_with('{') && platform != "gumroad" => EventOutcome::NeedsAttention,
        "ignore" => EventOutcome::Ignored,
        "ack_only" => return None,
        action => panic!("{action}"),
    })
}

async fn check(framework: Framework, platform: &str, vector: &Vector) {
    let case = format!("{framework:?} {platform}: {}", vector.name);
    // A receiver has two secrets at most.
    let Some(shop) = Shop::of(platform, vector).await.filter(|_| vector.secrets.len() <= 2 && !vector.optional) else {
        return;
    };
    if vector.expect == Expect::Reject {
        assert_eq!(shop.send(framework, platform, vector).await.0, 401, "{case}");
        assert_eq!(shop.entries().await, [], "{case}");
        return;
    }
    for _ in 0..2 {
        let answer = shop.send(framework, platform, vector).await;
        assert_eq!(answer, (200, "{\"received\":true}".to_owned()), "{case}");
    }
    let (entries, expected) = (shop.entries().await, outcome(platform, vector));
    let outcomes: Vec<_> = entries.iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, expected.map(Some).into_iter().collect::<Vec<_>>(), "{case}: {entries:#?}");
    let keys = shop.delivery.keys(&KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap().items;
    let sold = match expected {
        Some(EventOutcome::Issued) => vector.parsed["items"].as_array().map_or(1, |items| items.len().max(1)),
        // A sale that was partly refunded is a sale.
        Some(EventOutcome::PartialRefund) if platform == "woocommerce" => 1,
        _ => 0,
    };
    assert_eq!(keys.len(), sold, "{case}");
    assert_eq!(shop.delivery.outbox().work().await.unwrap().sent, sold, "{case}");
    if let (Some(quantity), [key], Some(email)) =
        (vector.parsed["quantity"].as_i64(), &keys[..], vector.parsed["email"].as_str())
    {
        assert_eq!((key.limit().as_count(), key.product().get()), (5 * quantity, 7), "{case}");
        assert_eq!(shop.mailer.accepted()[0].to.as_str(), email.to_lowercase(), "{case}");
    }
}

macro_rules! served {
    ($($test:ident: $name:literal, $file:literal;)+) => { $(
        #[tokio::test]
        async fn $test() {
            for vector in vectors(include_str!(concat!("vectors/", $file, ".json"))) {
                for framework in [Framework::Axum, Framework::Rocket] {
                    check(framework, $name, &vector).await;
                }
            }
        }
    )+ };
}

served! {
    stripe: "stripe", "stripe";
    shopify: "shopify", "shopify";
    lemon_squeezy: "lemonsqueezy", "lemonsqueezy";
    paddle: "paddle", "paddle";
    gumroad: "gumroad", "gumroad";
    woocommerce: "woocommerce", "woocommerce";
    polar: "polar", "polar";
    standard_webhooks: "standard", "standard-webhooks";
}
