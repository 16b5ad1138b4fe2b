//! What a platform could send: whatever is signed is read, and whatever is read comes to the same a second time.

#![no_main]

#[path = "../../in_process/platforms/proof.rs"]
mod proof;
#[path = "../../in_process/platforms/signing.rs"]
mod signing;

use delivery_core::platform::Received;
use libfuzzer_sys::fuzz_target;
use signing::{PLATFORMS, SECRET, adapter, now, signed};

const TOPICS: [&str; 8] = [
    "orders/paid",
    "orders/cancelled",
    "refunds/create",
    "order.updated",
    "order.deleted",
    "subscription.updated",
    "subscription_contracts/create",
    "subscription_billing_attempts/success",
];

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (which, topic, body) = input;
    let name = PLATFORMS[usize::from(which) % PLATFORMS.len()];
    let (fields, query) = signed(name, TOPICS[usize::from(topic) % TOPICS.len()], body);
    let platform = adapter(name, SECRET).unwrap();
    let fields = || fields.iter().map(|(field, value)| (*field, value));
    let read = || signing::read(&*platform, fields(), &query, body, now());
    match read() {
        Ok(Received::Notification(notification)) => assert!(!notification.id.is_empty()),
        Ok(Received::Ping) => panic!("a ping is not signed"),
        // Shopify signs no empty body.
        Err(_) => assert!(name == "shopify" && body.is_empty()),
    }
    assert_eq!(read(), read());
});
