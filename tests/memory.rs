//! What strangers can make the service remember. A test binary of its own: the memory of the process is measured.

use std::net::Ipv4Addr;
use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::clock::SystemClock;
use delivery_core::http::{Call, Endpoint};
use delivery_testing::Shop;
use http::{HeaderName, Method};

/// What an address with one request, and one with two, may cost within a minute, in bytes: 80 and 250 MB for a million.
const ONE_EACH: u64 = 80;
const TWO_EACH: u64 = 250;

/// In KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A forged key from each of many addresses behind a trusted proxy.
async fn flood(delivery: &Delivery, addresses: u32) {
    for client in 0..addresses {
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
async fn many_addresses_behind_a_trusted_proxy_are_bounded() {
    let networks = vec!["10.0.0.0/8".parse().unwrap()];
    let shop = Shop::with(|builder| builder.trusted_proxies(networks).clock(Arc::new(SystemClock::default()))).await;
    let addresses: u32 = support::rounds(200_000, 1_000_000);
    let before = resident();
    let each = async || {
        flood(&shop.delivery, addresses).await;
        (resident() - before) * 1024 / u64::from(addresses)
    };
    let (one, two) = (each().await, each().await);
    println!("{addresses} addresses: {one} bytes each with one request, {two} with two");
    assert!(one > 10, "they are remembered");
    assert!(one < ONE_EACH && two < TWO_EACH, "{one} and {two} bytes each");
}
