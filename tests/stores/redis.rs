//! Limits shared through Redis: what two servers share, what Redis sees, and what they do while it is away.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use delivery_core::key::Keyring;
use delivery_core::limit::{Decision, Identity, MemoryLimiter, Policy, Quota, RateLimiter, RedisLimiter, Subject};
use delivery_testing::ManualClock;
use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::redis::{Redis, redis};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::fixtures::until;

fn subject(address: [u8; 4]) -> Subject {
    Subject { policy: Policy::Validate, identity: Identity::from(std::net::IpAddr::from(address)) }
}

async fn passes(limiter: &RedisLimiter, subject: Subject, limit: u32) -> bool {
    let decision = limiter.admit(&subject, Quota::per_minute(limit).unwrap()).await.unwrap();
    matches!(decision, Decision::Admitted { .. })
}

/// What Redis is asked outside the limiter.
fn ask(server: &Redis, words: &[&str]) -> String {
    let port = server.url().rsplit_once(':').unwrap().1.to_owned();
    let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "redis-server", ignore = "needs redis-server")]
async fn servers_with_one_ring_share_each_window_exactly() {
    let server = redis();
    let ring: Keyring = "a secret of all servers".parse().unwrap();
    let rotated: Keyring = "a newer one before it,a secret of all servers".parse().unwrap();
    let limiters = [&ring, &rotated].map(|ring| Arc::new(RedisLimiter::new(&server.url(), ring.pepper()).unwrap()));
    let racers = (0..200).map(|index| {
        let limiter = limiters[index % 2].clone();
        tokio::spawn(async move { passes(&limiter, subject([192, 0, 2, 1]), 60).await })
    });
    // Sixteen at a time: a limiter that waits for half a second counts by itself, and all at once may take a busy machine that long.
    let passed: Vec<bool> = stream::iter(racers).buffer_unordered(16).map(Result::unwrap).collect().await;
    assert_eq!(passed.into_iter().filter(|passed| *passed).count(), 60);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "redis-server", ignore = "needs redis-server")]
async fn redis_sees_no_address_and_forgets_by_itself() {
    let server = Redis::start();
    let limiter = RedisLimiter::new(&server.url(), [7; 32]).unwrap();
    assert!(passes(&limiter, subject([192, 0, 2, 33]), 60).await);
    let names = ask(&server, &["KEYS", "*"]);
    let name = names.trim();
    assert!(name.starts_with("delivery:validate:") && !name.contains("192"), "{name}");
    let left: u64 = ask(&server, &["PTTL", name]).trim().parse().unwrap();
    assert!((50_000..=61_000).contains(&left), "{left}");
}

/// In real time: another process is frozen and killed.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "redis-server", ignore = "needs redis-server")]
async fn while_redis_is_away_each_server_limits_by_itself_and_comes_back_by_itself() {
    let server = Redis::start();
    let limiter = RedisLimiter::new(&server.url(), [7; 32]).unwrap();
    assert!(passes(&limiter, subject([192, 0, 2, 1]), 1).await);
    let signal = |signal: &str| {
        let process = server.process().unwrap();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    };
    signal("-STOP");
    let status = format!("/proc/{}/stat", server.process().unwrap());
    let is_frozen = async || std::fs::read_to_string(&status).unwrap().contains(") T ");
    until("the server is frozen", 5, is_frozen).await;
    let alone = async {
        assert!(passes(&limiter, subject([192, 0, 2, 1]), 1).await, "the first that this server counts itself");
        for _ in 0..1000 {
            assert!(!passes(&limiter, subject([192, 0, 2, 1]), 1).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), alone).await.expect("nobody waits for a server that is away");
    let (pinged, ()) = tokio::join!(limiter.ping(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        signal("-CONT");
    });
    pinged.expect("a ping waits longer than a request");
    signal("-KILL");
    // It starts again, empty: the request passes once more as soon as limits are shared.
    until("limits are shared again", 10, async || passes(&limiter, subject([192, 0, 2, 1]), 1).await).await;
    assert!(ask(&server, &["KEYS", "*"]).contains("delivery:validate:"));
}

/// A name that leads to one server first and then to another, as after a failover. Connections that are open stay open.
async fn name(target: Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(("127.0.0.1", target.load(Ordering::Relaxed))).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "redis-server", ignore = "needs redis-server")]
async fn limits_are_shared_again_after_a_failover_to_another_server() {
    let (first, second) = (Redis::start(), Redis::start());
    let port = |server: &Redis| server.url().rsplit_once(':').unwrap().1.to_owned();
    let target = Arc::new(AtomicU16::new(port(&first).parse().unwrap()));
    let limiter = RedisLimiter::new(&name(target.clone()).await, [7; 32]).unwrap();
    assert!(passes(&limiter, subject([192, 0, 2, 1]), 60).await);
    // The first becomes a replica. It refuses writes, and closes no connection.
    target.store(port(&second).parse().unwrap(), Ordering::Relaxed);
    ask(&first, &["REPLICAOF", "127.0.0.1", &port(&second)]);
    until("the new server counts", 10, async || {
        passes(&limiter, subject([192, 0, 2, 1]), 60).await;
        ask(&second, &["KEYS", "*"]).contains("delivery:validate:")
    })
    .await;
}

/// A clock that an operator can set back.
#[derive(Debug, Default)]
struct Wall(AtomicU64);

impl delivery_core::Clock for Wall {
    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        chrono::DateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "redis-server", ignore = "needs redis-server")]
async fn a_clock_that_is_set_back_is_healed_within_a_window() {
    let server = redis();
    let clock = Arc::new(Wall::default());
    let limiter =
        RedisLimiter::new(&server.url(), *b"a clock that goes back, a pepper").unwrap().on_clock(clock.clone());
    let decide = async |address: u8, at: u64| {
        clock.0.store(at, Ordering::Relaxed);
        let decision = limiter.admit(&subject([10, 9, 9, address]), Quota::per_minute(2).unwrap()).await.unwrap();
        match decision {
            Decision::Admitted { remaining, .. } => Ok(remaining),
            Decision::Refused { retry_after } => Err(retry_after.as_secs()),
        }
    };
    // Address, time, outcome: what is left of two, or after how many seconds it fits.
    for (address, at, expected) in [
        (1, 1000, Ok(1)),
        (1, 1010, Ok(0)),
        (2, 1010, Ok(1)),
        // Two minutes back: the full one waits no longer than it would have then, the other has one left.
        (1, 890, Err(50)),
        (2, 890, Ok(0)),
        (1, 939, Err(1)),
        (1, 940, Ok(0)),
        (1, 941, Err(9)),
        (2, 950, Ok(1)),
    ] {
        assert_eq!(decide(address, at).await, expected, "{address} at {at}");
    }
}

#[test]
fn what_is_no_address_is_refused_without_the_password() {
    for url in
        ["", "localhost:6379", "http://u:hunter2@localhost", "redis://u:hunter2@", "rediss://u:hunter2@localhost"]
    {
        let refused = RedisLimiter::new(url, [0; 32]).unwrap_err();
        assert!(!delivery_core::explain(&refused).contains("hunter2"), "{url}: {}", delivery_core::explain(&refused));
    }
}

/// Whatever comes when: Redis decides as the in-process limiter does.
#[test]
#[cfg_attr(without = "redis-server", ignore = "needs redis-server")]
fn decisions_are_those_of_the_in_process_limiter() {
    let server = redis();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // A pepper of its own keeps each history to itself.
    let histories = AtomicU64::new(0);
    let steps = proptest::collection::vec((0..40_000_u64, 0..3_u8, 1..5_u32), 1..60);
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let compared = runner.run(&steps, |steps| {
        let pepper = histories.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(async {
            let clock = Arc::new(ManualClock::default());
            let shared = RedisLimiter::new(&server.url(), pepper.to_be_bytes().repeat(4).try_into().unwrap())
                .unwrap()
                .on_clock(clock.clone());
            let alone = MemoryLimiter::new(clock.clone());
            let limit = steps[0].2;
            for (after, who, _) in steps {
                clock.advance(Duration::from_millis(after));
                let (subject, quota) = (subject([10, 0, 0, who]), Quota::per_minute(limit).unwrap());
                let decided =
                    [shared.admit(&subject, quota).await.unwrap(), alone.admit(&subject, quota).await.unwrap()];
                prop_assert_eq!(decided[0], decided[1]);
            }
            Ok(())
        })
    });
    compared.unwrap();
}
