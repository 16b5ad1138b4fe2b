//! Signing as each platform does.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use data_encoding::{BASE64, HEXLOWER};
use delivery_core::platform::{
    Gumroad, LemonSqueezy, Paddle, Platform, Polar, Received, Request, Secrets, Shopify, Standard, Stripe, Unauthentic,
    WooCommerce,
};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName};
use sha2::Sha256;

/// Every platform signs with it.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The names of all platforms.
pub const PLATFORMS: [&str; 8] =
    ["stripe", "shopify", "lemonsqueezy", "paddle", "gumroad", "woocommerce", "polar", "standard"];

/// When everything is signed.
pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_261_846, 0).unwrap()
}

/// The adapter with these secrets; none where they are not accepted as secrets.
pub fn adapter(name: &str, secrets: &Secrets) -> Option<Arc<dyn Platform>> {
    Some(match name {
        "stripe" => Arc::new(Stripe::new(secrets)),
        "shopify" => Arc::new(Shopify::new(secrets)),
        "lemonsqueezy" => Arc::new(LemonSqueezy::new(secrets)),
        "paddle" => Arc::new(Paddle::new(secrets)),
        "gumroad" => Arc::new(Gumroad::new(secrets).ok()?),
        "woocommerce" => Arc::new(WooCommerce::new(secrets)),
        "polar" => Arc::new(Polar::new(secrets)),
        "standard" => Arc::new(Standard::new(secrets).ok()?),
        name => panic!("no platform is called {name}"),
    })
}

/// A request as an adapter reads it.
pub fn read<'f>(
    platform: &dyn Platform,
    fields: impl IntoIterator<Item = (&'f str, &'f String)>,
    query: &str,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<Received, Unauthentic> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    platform.read(&Request { headers: &headers, query, body, now })
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// What the platform sends with `body`.
pub fn signed(name: &str, topic: &str, body: &[u8]) -> (Vec<(&'static str, String)>, String) {
    let (text, time) = (SECRET.as_bytes(), now().timestamp().to_string());
    let hex = |parts: &[&[u8]]| HEXLOWER.encode(&mac(text, parts));
    let base64 = |parts: &[&[u8]]| BASE64.encode(&mac(text, parts));
    let standard = || {
        let key = BASE64.decode(SECRET.trim_start_matches("whsec_").as_bytes()).unwrap();
        let signature = BASE64.encode(&mac(&key, &[b"msg_1.", time.as_bytes(), b".", body]));
        let fields = [("webhook-id", "msg_1".to_owned()), ("webhook-timestamp", time.clone())];
        [fields.as_slice(), &[("webhook-signature", format!("v1,{signature}"))]].concat()
    };
    let headers = match name {
        "stripe" => vec![("stripe-signature", format!("t={time},v1={}", hex(&[time.as_bytes(), b".", body])))],
        "paddle" => vec![("paddle-signature", format!("ts={time};h1={}", hex(&[time.as_bytes(), b":", body])))],
        "lemonsqueezy" => vec![("x-signature", hex(&[body]))],
        "shopify" => vec![
            ("x-shopify-hmac-sha256", base64(&[body])),
            ("x-shopify-topic", topic.to_owned()),
            ("x-shopify-webhook-id", "1".to_owned()),
            ("x-shopify-shop-domain", "shop.example".to_owned()),
            ("x-shopify-api-version", "2026-10".to_owned()),
        ],
        "woocommerce" => {
            vec![("x-wc-webhook-signature", base64(&[body])), ("x-wc-webhook-topic", topic.to_owned())]
        }
        "gumroad" => return (Vec::new(), format!("token={SECRET}")),
        _ => standard(),
    };
    (headers, String::new())
}
