//! Who is counted: a stranger's header counts for nothing, and a proxy's is read from the right.

#![no_main]

use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint};
use delivery_core::limit::{Decision, Identity, LimitError, Quota, RateLimiter, Subject};
use delivery_fuzz::{SECRET, TOKEN};
use delivery_testing::MemoryStore;
use delivery_testing::RecordingMailer;
use libfuzzer_sys::fuzz_target;

/// Admits everybody, and remembers who came last.
#[derive(Debug, Default)]
struct Door(Mutex<Option<Identity>>);

#[async_trait]
impl RateLimiter for Door {
    async fn admit(&self, subject: &Subject, _: Quota) -> Result<Decision, LimitError> {
        *self.0.lock().unwrap() = Some(subject.identity);
        Ok(Decision::Admitted { remaining: 1, reset: Duration::ZERO })
    }
}

static DOOR: LazyLock<Arc<Door>> = LazyLock::new(Arc::default);
static DELIVERY: LazyLock<Delivery> = LazyLock::new(|| {
    let (signing, webhook, admin) =
        ("a secret for fuzzing".parse().unwrap(), SECRET.parse().unwrap(), TOKEN.parse().unwrap());
    Delivery::builder(Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()), signing)
        .webhook_secret(webhook)
        .admin_token(admin)
        .limiter(DOOR.clone())
        .trusted_proxies(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()])
        .build()
});

fn counted(peer: IpAddr, lines: &[Vec<u8>]) -> Option<Identity> {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap());
    let mut call = Call::new(http::Method::GET).query("key=x").from(peer);
    for line in lines {
        if let Ok(value) = http::HeaderValue::from_bytes(line) {
            call.headers.append("x-forwarded-for", value);
        }
    }
    RUNTIME.block_on(Endpoint::Validate.call(&DELIVERY, call));
    DOOR.0.lock().unwrap().take()
}

fn of(address: IpAddr) -> Identity {
    match address.to_canonical() {
        IpAddr::V4(address) => Identity::V4(address),
        IpAddr::V6(address) => Identity::V6((u128::from(address) >> 64) as u64),
    }
}

fn trusted(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.segments()[..2] == [0x2001, 0xdb8],
    }
}

fuzz_target!(|input: (IpAddr, bool, Vec<Vec<u8>>, IpAddr)| {
    let (peer, from_proxy, mut lines, client) = input;
    let peer = if from_proxy { "10.1.2.3".parse().unwrap() } else { peer };
    let seen = counted(peer, &lines);
    if !trusted(peer) {
        assert_eq!(seen, Some(of(peer)), "a stranger says who it is");
        return;
    }
    assert!(seen.is_some());
    // What the proxy adds is what counts, whatever the client sent before it.
    if !trusted(client) {
        lines.push(client.to_string().into_bytes());
        assert_eq!(counted(peer, &lines), Some(of(client)));
    }
});
