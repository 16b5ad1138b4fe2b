//! Signing as each platform does.

use std::sync::{Arc, LazyLock};

use chrono::{DateTime, Utc};
use delivery_core::delivery::PlatformSettings;
use delivery_core::http::PlatformPath;
use delivery_core::platform::{Platform, Received, Request, Unauthentic};
use http::{HeaderMap, HeaderName};

pub use super::proof::SECRET;
use super::proof::proof;

/// The names of all platforms.
pub static PLATFORMS: LazyLock<Vec<&str>> =
    LazyLock::new(|| PlatformPath::built_in().map(PlatformPath::name).collect());

/// When everything is signed.
pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_261_846, 0).unwrap()
}

/// The adapter that a server makes of this secret; none where it is not accepted as a secret.
pub fn adapter(name: &str, secret: &str) -> Option<Arc<dyn Platform>> {
    let names = ["SECRET", "TOKEN"].map(|kind| format!("{}_{kind}", name.to_uppercase()));
    let settings =
        PlatformSettings::read(|setting| names.iter().any(|name| name == setting).then(|| secret.to_owned()));
    settings.ok()?.platforms.pop()
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

/// What the platform sends with `body`.
pub fn signed(name: &str, topic: &str, body: &[u8]) -> (Vec<(&'static str, String)>, String) {
    let (mut headers, query) = proof(name, body, now().timestamp(), "msg_1");
    match name {
        "shopify" => headers.extend([
            ("x-shopify-topic", topic.to_owned()),
            ("x-shopify-webhook-id", "1".to_owned()),
            ("x-shopify-shop-domain", "shop.example".to_owned()),
            ("x-shopify-api-version", "2026-10".to_owned()),
        ]),
        "woocommerce" => headers.push(("x-wc-webhook-topic", topic.to_owned())),
        _ => {}
    }
    (headers, query)
}
