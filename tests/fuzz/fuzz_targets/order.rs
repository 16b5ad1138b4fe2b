//! Whatever a webhook is sent: an answer that is documented, and a key only for who knows the secret.

#![no_main]

use std::sync::LazyLock;

use delivery_core::http::{Call, Endpoint};
use delivery_fuzz::{SECRET, Shop};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static SHOP: LazyLock<Shop> = LazyLock::new(Shop::new);

fuzz_target!(|body: &[u8]| {
    let call = || Call::new(http::Method::POST).json(body.to_vec());
    let (reply, answer) = SHOP.ask(Endpoint::Order, call());
    if reply.status() != 200 {
        return;
    }
    // A byte order mark before it is skipped.
    let sent: Value = serde_json::from_slice(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)).unwrap();
    assert_eq!(sent["secret"], SECRET);
    assert_eq!(sent["product_id"], 1);
    assert!((1..=255).contains(&sent["order_id"].as_str().unwrap().chars().count()));
    let key = answer["api_key"].as_str().unwrap();
    assert!(SHOP.keyring.verify(key).is_some());
    // Told again, it is the same.
    assert_eq!(SHOP.ask(Endpoint::Order, call()).1, answer);
});
