//! What strangers can make the service remember. A test binary of its own: the memory of the process is measured.

use std::net::Ipv4Addr;
use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint};
use delivery_core::store::MemoryStore;
use delivery_testing::RecordingMailer;
use http::{HeaderName, Method};

/// What a million addresses with one request each, and with two, may cost within a minute; stated in README.
const ONE_EACH_MB: u64 = 80;
const TWO_EACH_MB: u64 = 250;

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// A forged key from each of a million addresses behind a trusted proxy.
async fn flood(delivery: &Delivery) {
    for client in 0..1_000_000_u32 {
        let forwarded = Ipv4Addr::from_bits(0xc000_0000 + client.wrapping_mul(0x9e37_79b1) % 0x1000_0000);
        let call = Call::new(Method::GET)
            .query("key=dlv_forged")
            .from("10.1.2.3".parse().unwrap())
            .header(HeaderName::from_static("x-forwarded-for"), forwarded.to_string().parse().unwrap());
        let reply = Endpoint::Validate.call(delivery, call).await;
        assert_eq!(reply.status(), 401);
    }
}

#[tokio::test]
async fn a_million_addresses_behind_a_trusted_proxy_are_bounded() {
    let (webhook, admin) = ("the platform's secret".parse().unwrap(), "the-seller's-token".parse().unwrap());
    let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
    let delivery = Delivery::builder(store, mailer, "a signing secret".parse().unwrap())
        .webhook_secret(webhook)
        .admin_token(admin)
        .trusted_proxies(vec!["10.0.0.0/8".parse().unwrap()])
        .build();
    let before = resident_mb();
    flood(&delivery).await;
    let one_each = resident_mb() - before;
    flood(&delivery).await;
    let two_each = resident_mb() - before;
    println!("a million addresses: {one_each} MB with one request each, {two_each} MB with two");
    assert!(one_each > 10, "they are remembered");
    assert!(one_each < ONE_EACH_MB && two_each < TWO_EACH_MB, "{one_each} and {two_each} MB");
}
