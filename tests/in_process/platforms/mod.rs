//! What each platform's signed requests come to: 170 requests with their outcome, many of them from the platforms' own
//! documentation and libraries.

mod applied;
mod buyer;
mod events;
mod hostile;
mod served;
mod shop;
mod signing;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use delivery_core::platform::{Event, Extent, Line, Platform, Received, Reference, Refund, Sale, Secrets, Unauthentic};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
struct Vector {
    name: String,
    secret: String,
    #[serde(default)]
    secrets: Vec<String>,
    headers: BTreeMap<String, String>,
    body: String,
    now: i64,
    #[serde(default)]
    url: String,
    expect: Expect,
    #[serde(default)]
    optional: bool,
    parsed: Value,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Accept,
    Reject,
}

fn vectors(text: &str) -> Vec<Vector> {
    serde_json::from_str(text).unwrap()
}

impl Vector {
    /// The adapter with the secrets that the receiver has; none where they are not accepted as secrets.
    fn adapter(&self, name: &str) -> Option<Arc<dyn Platform>> {
        let secrets = if self.secrets.is_empty() { vec![self.secret.clone()] } else { self.secrets.clone() };
        signing::adapter(name, &Secrets::new(secrets).ok()?)
    }

    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.now, 0).unwrap()
    }
}

fn read(name: &str, vector: &Vector) -> Result<Received, Unauthentic> {
    let fields = vector.headers.iter().map(|(name, value)| (name.as_str(), value));
    let query = vector.url.split_once('?').map_or("", |(_, query)| query);
    let platform = vector.adapter(name).ok_or(Unauthentic)?;
    signing::read(&*platform, fields, query, vector.body.as_bytes(), vector.now())
}

/// What the events come to, in the words of the vectors.
fn action(received: &Received) -> &'static str {
    let Received::Notification(notification) = received else { return "ack_only" };
    let Ok(events) = &notification.events else { return "unreadable" };
    let is_buyable = |line: &Line| line.own.is_some() || !line.names.is_empty();
    match events.as_slice() {
        [] => "ignore",
        [Event::Paid(Sale { lines, buyer, .. })] => match &buyer.email {
            None if buyer.customer.is_some() => "needs_customer_lookup",
            Some(_) if lines.iter().all(is_buyable) => "issue",
            _ => "unmapped",
        },
        [.., Event::Refunded(Refund { extent: Extent::Partial { .. }, .. })] => "partial_refund",
        [Event::Refunded(_) | Event::Disputed(_)] => "revoke",
        [Event::Restored(_)] => "restore",
        [Event::Renewed(_)] => "renewal",
        [Event::Customer { .. }] => "remember_customer",
        other => panic!("{other:?}"),
    }
}

/// The texts that the events hold, by the names of the vectors.
fn facts(received: &Received) -> BTreeMap<&'static str, String> {
    let Received::Notification(notification) = received else { return BTreeMap::new() };
    let mut facts = BTreeMap::from([("event", notification.kind.clone()), ("test", notification.is_test.to_string())]);
    for event in notification.events.iter().flatten() {
        let (of, buyer, references) = match event {
            Event::Paid(sale) => {
                (Some(Reference::Order(sale.order.clone())), Some(&sale.buyer), Some(&sale.references))
            }
            Event::Renewed(it) => (Some(Reference::Order(it.charge.clone())), Some(&it.buyer), Some(&it.references)),
            Event::Refunded(refund) => (Some(refund.of.clone()), None, None),
            Event::Disputed(dispute) | Event::Restored(dispute) => (Some(dispute.of.clone()), None, None),
            Event::Customer { reference, email, .. } => {
                facts.extend([("customer_ref", reference.clone()), ("email", email.clone())]);
                continue;
            }
            _ => continue,
        };
        match of {
            Some(Reference::Order(order)) => drop(facts.insert("order_id", order)),
            Some(Reference::Payment(payment)) => drop(facts.insert("payment_intent", payment)),
            None => {}
        }
        if let Some(buyer) = buyer {
            facts.extend(buyer.email.clone().map(|email| ("email", email)));
            facts.extend(buyer.customer.clone().map(|customer| ("customer_ref", customer)));
        }
        facts.extend(references.and_then(|it| it.payment.clone()).map(|payment| ("payment_intent", payment)));
    }
    facts
}

fn lines(received: &Received) -> Vec<Line> {
    let Received::Notification(notification) = received else { return Vec::new() };
    let lines = notification.events.iter().flatten().flat_map(|event| match event {
        Event::Paid(sale) => sale.lines.clone(),
        Event::Renewed(renewal) => renewal.lines.clone(),
        Event::Refunded(Refund { extent: Extent::Lines { lines, .. }, .. }) => lines.clone(),
        _ => Vec::new(),
    });
    lines.collect()
}

/// Whether a line is known by `name`: bare, with its kind, or as a number of ours.
fn has(line: &Line, name: &str) -> bool {
    let is_own = line.own.is_some_and(|own| own.to_string() == name.trim_start_matches("PROD-"));
    is_own || line.names.iter().any(|known| known == name || known.ends_with(&format!(":{name}")))
}

fn check(platform: &str, text: &str) -> usize {
    let vectors = vectors(text);
    for vector in &vectors {
        let (name, received) = (&vector.name, read(platform, vector));
        if vector.optional {
            continue;
        }
        let received = match (&vector.expect, received) {
            (Expect::Accept, Ok(received)) => received,
            (Expect::Reject, Err(Unauthentic)) => continue,
            (expected, read) => panic!("{platform}: {name}: {expected:?}, and was {read:?}"),
        };
        let parsed = |field: &str| vector.parsed[field].as_str();
        let expected = match parsed("action").unwrap() {
            "ignore" if !vector.body.starts_with('{') && platform != "gumroad" => "unreadable",
            expected => expected,
        };
        assert_eq!(action(&received), expected, "{platform}: {name}: {received:?}");
        if expected == "ignore" || expected == "unreadable" {
            continue;
        }
        let facts = facts(&received);
        let named: &[&str] = match expected {
            "revoke" | "restore" | "partial_refund" => &["order_id", "payment_intent"],
            "ack_only" => &[],
            _ => &["order_id", "payment_intent", "email", "customer_ref", "event"],
        };
        for fact in named {
            if let Some(expected) = parsed(fact) {
                assert_eq!(facts.get(fact).map(String::as_str), Some(expected), "{platform}: {name}: {fact}");
            }
        }
        if !matches!(expected, "issue" | "renewal") {
            continue;
        }
        let lines = lines(&received);
        let references = vector.parsed["product_refs"].as_array().into_iter().flatten();
        let references = references.filter_map(|it| Some(it.as_str()?.split_once(':')?.1));
        for reference in references.chain(parsed("product_ref")) {
            assert!(lines.iter().any(|line| has(line, reference)), "{platform}: {name}: {reference} in {lines:?}");
        }
        if let Some(quantity) = vector.parsed["quantity"].as_u64() {
            assert_eq!(lines.iter().map(|line| u64::from(line.quantity)).sum::<u64>(), quantity, "{platform}: {name}");
        }
        let items = vector.parsed["items"].as_array().into_iter().flatten();
        for (item, line) in items.zip(&lines) {
            for field in ["sku", "variant_id", "variation_id", "product_id", "price_id"] {
                if let Some(reference) = item[field].as_str().filter(|it| !matches!(*it, "" | "0")) {
                    assert!(has(line, reference), "{platform}: {name}: {reference} in {line:?}");
                }
            }
            assert_eq!(Some(u64::from(line.quantity)), item["quantity"].as_u64(), "{platform}: {name}");
        }
        if let Some(is_test) = vector.parsed["test"].as_bool() {
            assert_eq!(facts["test"], is_test.to_string(), "{platform}: {name}");
        }
        // What a buyer can fill never names a product.
        assert!(!lines.iter().any(|line| has(line, "999")), "{platform}: {name}");
    }
    vectors.len()
}

macro_rules! platforms {
    ($($test:ident: $name:literal, $file:literal, $count:literal;)+) => {
        $(
            #[test]
            fn $test() {
                assert_eq!(check($name, include_str!(concat!("vectors/", $file, ".json"))), $count);
            }
        )+

        mod over_http {
            $(
                #[tokio::test]
                async fn $test() {
                    super::served::check_all($name, include_str!(concat!("vectors/", $file, ".json"))).await;
                }
            )+
        }
    };
}

platforms! {
    stripe: "stripe", "stripe", 25;
    shopify: "shopify", "shopify", 15;
    lemon_squeezy: "lemonsqueezy", "lemonsqueezy", 19;
    paddle: "paddle", "paddle", 33;
    gumroad: "gumroad", "gumroad", 14;
    woocommerce: "woocommerce", "woocommerce", 21;
    polar: "polar", "polar", 16;
    standard_webhooks: "standard", "standard-webhooks", 27;
}
