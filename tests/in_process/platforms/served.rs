//! The same requests over HTTP, on both frameworks: what is answered, kept, issued and e-mailed.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::Delivery;
use delivery_core::delivery::{PlatformSettings, Settings};
use delivery_core::http::{Endpoint, PlatformPath};
use delivery_core::ledger::{EventOutcome, InboxEvent};
use delivery_core::product::{NewProduct, Refs};
use delivery_core::store::{InboxQuery, KeyQuery};
use delivery_rocket::DeliveryFairing;
use delivery_testing::{ManualClock, MemoryStore, RecordingMailer, Shop};
use http::Method;
use serde_json::{Value, json};

use super::{Expect, Vector, shop, vectors};
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

/// What a platform calls the seventh product.
type Names = fn(&str, &Vector) -> BTreeSet<String>;

/// The same in each vector of a platform: what of others is sold says by a number of ours what it is.
pub(super) fn known_names(platform: &str, _: &Vector) -> BTreeSet<String> {
    NAMES.iter().filter(|(source, _)| *source == platform).map(|(_, name)| (*name).to_owned()).collect()
}

/// All by which a vector names what is sold.
pub(super) fn named_by(platform: &str, vector: &Vector) -> BTreeSet<String> {
    let kind = |field: &str| match (platform, field) {
        ("lemonsqueezy" | "shopify", "variant_id") => "variant:",
        ("woocommerce", "variation_id") => "variation:",
        ("lemonsqueezy" | "shopify" | "woocommerce", "product_id") => "product:",
        _ => "",
    };
    let references = vector.parsed["product_refs"].as_array().into_iter().flatten();
    let references = references.filter_map(|it| it.as_str()?.split_once(':'));
    let items = vector.parsed["items"].as_array().into_iter().flatten().flat_map(|item| {
        let fields = ["sku", "variant_id", "variation_id", "product_id"].into_iter();
        fields.filter_map(move |field| Some((field, item[field].as_str()?)))
    });
    let mut named: Vec<(&str, &str)> = references.chain(items).collect();
    if named.is_empty() {
        named.extend(vector.parsed["product_ref"].as_str().map(|name| ("", name)));
    }
    named.retain(|(_, name)| !matches!(*name, "" | "0" | "7" | "PROD-7"));
    named.into_iter().map(|(field, name)| format!("{}{name}", kind(field))).collect()
}

/// A shop at the time of a vector, with its secrets; `None` where they are no secrets. The seventh of its twelve products has
/// `names` on the platform. All but the first have 5 uses a piece.
async fn shop_of(platform: &str, vector: &Vector, names: Names) -> Option<Shop> {
    let mut settings = PlatformSettings::default();
    settings.platforms.push(vector.adapter(platform)?);
    settings.accept_test_events = vector.parsed["action"] != "ignore";
    let clock = Arc::new(ManualClock::at(vector.now()));
    let shop = Shop::with(|builder| builder.platforms(settings).clock(clock)).await;
    let names = names(platform, vector);
    for number in 2..=12 {
        let product = NewProduct::new(format!("Product {number}")).unwrap().terms(uses(5));
        let refs = names.iter().map(|name| (platform.parse().unwrap(), name.parse().unwrap()));
        let product = if number == 7 { product.refs(Refs::new(refs).unwrap()) } else { product };
        shop.delivery.add_product(product).await.unwrap();
    }
    Some(shop)
}

async fn host(delivery: &Delivery, framework: Framework) -> Box<dyn Host> {
    let delivery = delivery.clone();
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

async fn events(shop: &Shop) -> Vec<InboxEvent> {
    shop.delivery.events(&InboxQuery { limit: 100, ..InboxQuery::default() }).await.unwrap().items
}

/// The result of an action in a shop that knows nothing of the order yet.
fn outcome(platform: &str, vector: &Vector) -> Option<EventOutcome> {
    Some(match vector.action() {
        "issue" | "renewal" => EventOutcome::Issued,
        "revoke" => EventOutcome::Revoked,
        "restore" => EventOutcome::Restored,
        "partial_refund" => EventOutcome::PartialRefund,
        "remember_customer" => EventOutcome::Remembered,
        "unmapped" | "needs_customer_lookup" => EventOutcome::NeedsAttention,
        "ignore" if !vector.body.starts_with('{') && platform != "gumroad" => EventOutcome::NeedsAttention,
        // What is said of a subscription is kept until it is charged.
        "ignore" | "period" | "end" => EventOutcome::Ignored,
        "ack_only" => return None,
        action => panic!("{action}"),
    })
}

async fn check(framework: Framework, platform: &str, vector: &Vector, names: Names) {
    let case = format!("{framework:?} {platform}: {}", vector.name);
    // A receiver has two secrets at most.
    let Some(shop) = shop_of(platform, vector, names).await.filter(|_| vector.secrets.len() <= 2 && !vector.optional)
    else {
        return;
    };
    let host = host(&shop.delivery, framework).await;
    if vector.expect == Expect::Reject {
        assert_eq!(send(&*host, platform, vector).await.0, 401, "{case}");
        assert_eq!(events(&shop).await, [], "{case}");
        return;
    }
    for _ in 0..2 {
        let answer = send(&*host, platform, vector).await;
        assert_eq!(answer, (200, "{\"received\":true}".to_owned()), "{case}");
    }
    let (events, expected) = (events(&shop).await, outcome(platform, vector));
    let outcomes: Vec<_> = events.iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, expected.map(Some).into_iter().collect::<Vec<_>>(), "{case}: {events:#?}");
    let keys = shop.delivery.keys(&KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap().items;
    let sold = match expected {
        Some(EventOutcome::Issued) => vector.parsed["items"].as_array().map_or(1, |items| items.len().max(1)),
        // A sale that was partly refunded is a sale.
        Some(EventOutcome::PartialRefund) if platform == "woocommerce" => 1,
        _ => 0,
    };
    assert_eq!(keys.len(), sold, "{case}");
    assert_eq!(shop.delivery.maintenance().outbox().work().await.unwrap().sent, sold, "{case}");
    if let (Some(quantity), [key], Some(email)) =
        (vector.parsed["quantity"].as_i64(), &keys[..], vector.parsed["email"].as_str())
    {
        assert_eq!((key.limit().as_count(), key.product().get()), (5 * quantity, 7), "{case}");
        assert_eq!(shop.mailer.accepted()[0].to.as_str(), email.to_lowercase(), "{case}");
    }
    if let (Some(paid_until), [key]) = (vector.parsed["paid_until"].as_str(), &keys[..]) {
        let paid_until: DateTime<Utc> = paid_until.parse().unwrap();
        assert_eq!(key.expires_at(), paid_until + TimeDelta::days(3), "{case}");
    }
}

/// Sends each vector to a framework, to both in turn. That both answer alike is shown by the tests over HTTP.
pub(super) async fn check_all(platform: &str, text: &str, names: Names) {
    for (vector, framework) in vectors(text).into_iter().zip([Framework::Axum, Framework::Rocket].into_iter().cycle()) {
        check(framework, platform, &vector, names).await;
    }
}

#[tokio::test]
async fn a_platform_of_the_hosts_own_is_served_and_described() {
    for framework in [Framework::Axum, Framework::Rocket] {
        let shop = shop::Shop::with_guide().await;
        let host = host(&shop.delivery, framework).await;
        let token = ("x-own-token", "from us".to_owned());
        let form = ("content-type", "application/x-www-form-urlencoded".to_owned());
        for (method, path, headers, expected) in [
            (Method::POST, "own", vec![], 401),
            (Method::POST, "own", vec![token.clone()], 200),
            // Rocket would take the form's method for the request's.
            (Method::POST, "own", vec![token, form], 200),
            (Method::GET, "own", vec![], 405),
            (Method::POST, "stripe", vec![], 404),
        ] {
            let (status, body) = host.ask(method, &format!("/api/webhook/{path}"), &headers, "_method=delete").await;
            assert_eq!(status, expected, "{framework:?} {path} {headers:?}: {body}");
        }
        assert_eq!(shop.keys().await.len(), 1, "{framework:?}: one order, twice");
        let (_, described) = host.ask(Method::GET, "/api/openapi.json", &[], "").await;
        let described: Value = serde_json::from_str(&described).unwrap();
        let operation = &described["paths"]["/api/webhook/own"]["post"];
        assert_eq!(operation["operationId"], "ownEvent", "{framework:?}");
        assert!(operation["parameters"].is_null(), "its headers are not known: {operation}");
    }
}

#[tokio::test]
async fn platforms_that_settings_name_and_the_host_picks_are_served() {
    let table = json!({
        "webhook_secret": crate::calls::SECRET, "admin_token": "the-seller's-token", "key_secret": "a signing secret",
        "stripe_secret": "whsec_1", "accept_test_events": true, "limit_resend": 1, "limit_desk": 1,
    });
    let settings: Settings = serde_json::from_value(table).unwrap();
    let builder = settings.builder(Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
    let delivery = builder.platform(shop::Own).build();
    let own = Endpoint::Platform(PlatformPath::new("/api/webhook/own").unwrap());
    let picked = DeliveryFairing::new(delivery.clone()).endpoints([own, own]);
    let picked: [Box<dyn Host>; 2] = [
        Box::new(Axum(delivery_axum::router_of(delivery.clone(), [own]))),
        Box::new(OnRocket::launch(rocket::custom(quiet()).attach(picked)).await),
    ];
    let all = [host(&delivery, Framework::Axum).await, host(&delivery, Framework::Rocket).await];
    for (hosts, stripe) in [(picked, 404), (all, 401)] {
        for host in hosts {
            for (path, expected) in [("own", 401), ("stripe", stripe), ("shopify", 404)] {
                let (status, _) = host.ask(Method::POST, &format!("/api/webhook/{path}"), &[], "{}").await;
                assert_eq!(status, expected, "{path}");
            }
        }
    }
}
