//! What strangers can make the service remember. A test binary of its own: the memory of the process is measured.

use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint};
use delivery_core::store::MemoryStore;
use delivery_core::testing::RecordingMailer;
use http::{HeaderName, Method};

/// What a million addresses within a minute may cost; stated in README.
const BOUND_MB: u64 = 80;

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_million_addresses_behind_a_trusted_proxy_are_bounded() {
    let (webhook, admin) = ("the platform's secret".parse().unwrap(), "the-seller's-token".parse().unwrap());
    let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
    let delivery = Delivery::builder(store, mailer, "a signing secret".parse().unwrap(), webhook, admin)
        .trusted_proxies(vec!["10.0.0.0/8".parse().unwrap()])
        .build();
    let before = resident_mb();
    for client in 0..1_000_000_u32 {
        let forwarded = std::net::Ipv4Addr::from_bits(0xc000_0000 + client.wrapping_mul(0x9e37_79b1) % 0x1000_0000);
        let call = Call::new(Method::GET)
            .query("key=dlv_forged")
            .from("10.1.2.3".parse().unwrap())
            .header(HeaderName::from_static("x-forwarded-for"), forwarded.to_string().parse().unwrap());
        let reply = Endpoint::Validate.call(&delivery, call).await;
        assert_eq!(reply.status(), 401);
    }
    let grown = resident_mb() - before;
    println!("a million addresses: {grown} MB");
    assert!(grown > 10, "they are remembered");
    assert!(grown < BOUND_MB, "{grown} MB");
}
