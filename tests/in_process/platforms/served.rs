//! The same requests over HTTP, on both frameworks: what is answered, kept, issued and e-mailed.

use std::sync::Arc;

use delivery_core::delivery::PlatformSettings;
use delivery_core::product::{NewProduct, Refs};
use delivery_core::store::{Entry, EventOutcome, InboxQuery, KeyQuery};
use delivery_rocket::DeliveryFairing;
use delivery_testing::{ManualClock, Shop};
use http::Method;

use super::{Expect, Vector, vectors};
use crate::calls::{Axum, Host, OnRocket, quiet, uses};

const NAMES: [(&str, &str); 6] = [
    ("gumroad", "QMGY"),
    ("lemonsqueezy", "variant:90210"),
    ("shopify", "variant:39072856"),
    ("woocommerce", "variation:23"),
    ("paddle", "pri_01gsz98e27ak2tyhexptwc58yk"),
    ("polar", "d8dd2de1-21b7-4a41-8bc3-ce909c0cfe23"),
];

#[derive(Debug, Clone, Copy)]
enum Framework {
    Axum,
    Rocket,
}

/// A shop at the time of a vector, with its secrets; `None` where they are no secrets. The seventh of its twelve products has a
/// name on each platform. All but the first have 5 uses a piece.
async fn shop(platform: &str, vector: &Vector) -> Option<Shop> {
    let mut settings = PlatformSettings::default();
    settings.platforms.push(vector.adapter(platform)?);
    settings.accept_test_events = vector.parsed["action"] != "ignore";
    let clock = Arc::new(ManualClock::at(vector.now()));
    let shop = Shop::with(|builder| builder.platforms(settings).clock(clock)).await;
    for number in 2..=12 {
        let product = NewProduct::new(format!("Product {number}")).unwrap().terms(uses(5));
        let names = NAMES.iter().map(|(source, name)| (source.parse().unwrap(), name.parse().unwrap()));
        let product = if number == 7 { product.refs(Refs::new(names).unwrap()) } else { product };
        shop.delivery.add_product(product).await.unwrap();
    }
    Some(shop)
}

async fn host(shop: &Shop, framework: Framework) -> Box<dyn Host> {
    let delivery = shop.delivery.clone();
    match framework {
        Framework::Axum => Box::new(Axum(delivery_axum::router(delivery))),
        Framework::Rocket => {
            let rocket = rocket::custom(quiet()).attach(DeliveryFairing::new(delivery));
            Box::new(OnRocket::launch(rocket).await)
        }
    }
}

/// Sends a vector, and returns the status and the body of the answer.
async fn send(host: &dyn Host, platform: &str, vector: &Vector) -> (u16, String) {
    let query = vector.url.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
    let path = format!("/api/webhook/{platform}{query}");
    let headers: Vec<_> = vector.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    host.ask(Method::POST, &path, &headers, &vector.body).await
}

async fn entries(shop: &Shop) -> Vec<Entry> {
    shop.delivery.events(&InboxQuery { limit: 100, ..InboxQuery::default() }).await.unwrap().items
}

/// The result of an action in a shop that knows nothing of the order yet.
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
    let Some(shop) = shop(platform, vector).await.filter(|_| vector.secrets.len() <= 2 && !vector.optional) else {
        return;
    };
    let host = host(&shop, framework).await;
    if vector.expect == Expect::Reject {
        assert_eq!(send(&*host, platform, vector).await.0, 401, "{case}");
        assert_eq!(entries(&shop).await, [], "{case}");
        return;
    }
    for _ in 0..2 {
        let answer = send(&*host, platform, vector).await;
        assert_eq!(answer, (200, "{\"received\":true}".to_owned()), "{case}");
    }
    let (entries, expected) = (entries(&shop).await, outcome(platform, vector));
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

/// Sends each vector to both frameworks.
pub async fn check_all(platform: &str, text: &str) {
    for vector in vectors(text) {
        for framework in [Framework::Axum, Framework::Rocket] {
            check(framework, platform, &vector).await;
        }
    }
}
