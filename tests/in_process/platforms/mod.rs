//! What each platform's signed requests come to: requests with their outcome, many of them from the platforms' own
//! documentation and libraries, and others that tell of subscriptions.

mod buyer;
mod dismissed;
mod events;
mod hostile;
mod proof;
mod renewing;
mod said;
mod served;
mod shop;
mod signing;
mod totals;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use delivery_core::platform::{Line, Paddle, Platform, Received, Secrets, Term, Unauthentic};
use serde::Deserialize;
use serde_json::Value;

use self::said::has;
pub use self::shop::Own;

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
        if self.secrets.is_empty() {
            return signing::adapter(name, &self.secret);
        }
        assert_eq!(name, "paddle", "vectors of other platforms have one secret");
        Some(Arc::new(Paddle::new(&Secrets::new(self.secrets.clone()).ok()?)))
    }

    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.now, 0).unwrap()
    }

    /// What it is to be read as, if it is accepted.
    fn action(&self) -> &str {
        self.parsed["action"].as_str().unwrap_or_else(|| panic!("{}: parsed has no action", self.name))
    }
}

fn read(name: &str, vector: &Vector) -> Result<Received, Unauthentic> {
    let fields = vector.headers.iter().map(|(name, value)| (name.as_str(), value));
    let query = vector.url.split_once('?').map_or("", |(_, query)| query);
    let platform = vector.adapter(name).ok_or(Unauthentic)?;
    signing::read(&*platform, fields, query, vector.body.as_bytes(), vector.now())
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
        let expected = match vector.action() {
            "ignore" if !vector.body.starts_with('{') && platform != "gumroad" => "unreadable",
            // A further charge is a sale as the first.
            "renewal" => "issue",
            expected => expected,
        };
        assert_eq!(said::action(&received), expected, "{platform}: {name}: {received:?}");
        check_facts(platform, vector, &received);
        if matches!(expected, "issue" | "period") {
            check_lines(platform, vector, &said::lines(&received));
        }
    }
    vectors.len()
}

/// What is said must be what the vector has; of what is ignored, nothing but the period that moves one that is paid.
fn check_facts(platform: &str, vector: &Vector, received: &Received) {
    let (case, facts) = (format!("{platform}: {}", vector.name), said::facts(received));
    let is = |fact: &str, expected: Option<&str>| {
        assert_eq!(facts.get(fact).map(String::as_str), expected, "{case}: {fact}");
    };
    let parsed = |fact: &str| vector.parsed[fact].as_str();
    // That a subscription of Polar's has cycled says nothing, also of the period.
    if vector.parsed["period"].is_object() && parsed("event") != Some("subscription.cycled") {
        let period = ["start", "end"].map(|end| vector.parsed["period"][end].as_str().unwrap());
        is("period", Some(period.join("/").as_str()));
    }
    let named: &[&str] = match vector.action() {
        "ignore" | "ack_only" => return,
        "revoke" | "restore" | "partial_refund" => &["order_id", "payment_intent"],
        "period" | "end" => &["order_id", "event", "recurrence"],
        _ => &["order_id", "payment_intent", "email", "customer_ref", "event"],
    };
    for fact in named {
        if let Some(expected) = parsed(fact) {
            is(fact, Some(expected));
        }
    }
    // What these have not, must not be there.
    for fact in ["subscription", "charged_at", "paid_until", "ended_at"] {
        if let Some(expected) = vector.parsed.get(fact) {
            is(fact, expected.as_str());
        }
    }
    if vector.action() == "renewal" {
        assert!(facts.contains_key("subscription"), "{case}");
    }
    if let Some(is_test) = vector.parsed["test"].as_bool() {
        is("test", Some(is_test.to_string().as_str()));
    }
}

fn check_lines(platform: &str, vector: &Vector, lines: &[Line]) {
    let case = format!("{platform}: {}", vector.name);
    let references = vector.parsed["product_refs"].as_array().into_iter().flatten();
    let references = references.filter_map(|it| Some(it.as_str()?.split_once(':')?.1));
    for reference in references.chain(vector.parsed["product_ref"].as_str()) {
        assert!(lines.iter().any(|line| has(line, reference)), "{case}: {reference} in {lines:?}");
    }
    if let Some(quantity) = vector.parsed["quantity"].as_u64() {
        // Without what is charged once, beside a subscription.
        let lines = lines.iter().filter(|line| line.term != Term::Once);
        assert_eq!(lines.map(|line| u64::from(line.quantity)).sum::<u64>(), quantity, "{case}");
    }
    let items = vector.parsed["items"].as_array().into_iter().flatten();
    for (item, line) in items.zip(lines) {
        for field in ["sku", "variant_id", "variation_id", "product_id", "price_id"] {
            if let Some(reference) = item[field].as_str().filter(|it| !matches!(*it, "" | "0")) {
                assert!(has(line, reference), "{case}: {reference} in {line:?}");
            }
        }
        assert_eq!(Some(u64::from(line.quantity)), item["quantity"].as_u64(), "{case}");
    }
    // What a buyer can fill never names a product.
    assert!(!lines.iter().any(|line| has(line, "999")), "{case}");
}

/// Tests that are named after the platforms, and how many vectors each has.
macro_rules! platforms {
    ($folder:literal, $names:ident, $($platform:ident: $count:literal,)+) => {
        #[test]
        fn every_platform_has_vectors() {
            assert_eq!([$($count),+].len(), delivery_core::http::PlatformPath::built_in().count());
        }

        $(
            #[test]
            fn $platform() {
                let vectors = include_str!(concat!("vectors/", $folder, stringify!($platform), ".json"));
                assert_eq!(crate::platforms::check(stringify!($platform), vectors), $count);
            }
        )+

        mod over_http {
            use crate::platforms::served::{$names, check_all};

            $(
                #[tokio::test]
                async fn $platform() {
                    let vectors = include_str!(concat!("vectors/", $folder, stringify!($platform), ".json"));
                    check_all(stringify!($platform), vectors, $names).await;
                }
            )+
        }
    };
}

platforms! { "", known_names,
    stripe: 25,
    shopify: 15,
    lemonsqueezy: 19,
    paddle: 33,
    gumroad: 14,
    woocommerce: 21,
    polar: 16,
    standard: 27,
}

/// Until when something is paid: many of them invite a misreading that comes to another date.
mod of_subscriptions {
    platforms! { "subscriptions/", named_by,
        stripe: 21,
        shopify: 5,
        lemonsqueezy: 9,
        paddle: 9,
        gumroad: 9,
        woocommerce: 10,
        polar: 9,
        standard: 4,
    }
}
