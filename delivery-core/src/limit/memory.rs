//! The limiter of a single process. Its windows are exact, and its memory is bounded.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use super::table::Table;
use super::window::nanoseconds;
use super::{Decision, Identity, LimitError, Policy, Quota, RateLimiter, Subject};
use crate::clock::Clock;

const POLICIES: usize = 9;
/// The default capacity: the maximum number of subjects of one kind, such as IPv4 clients, that are remembered under a
/// policy.
const DEFAULT_CAPACITY: usize = 1 << 20;
/// The number of the host application's limits below which unused ones are not removed.
const FEW_LIMITS: usize = 64;
/// Stands for [`Identity::Unknown`] in the table of IPv4 addresses. It is greater than every IPv4 address.
const UNKNOWN: u64 = 1 << 32;

/// Rate limits of one process: an exact sliding window for each subject, such as a client address or a key.
///
/// Memory is bounded. An address with one request in its window takes about 40 bytes, and an address with two to six
/// requests about 100. An address with more requests takes another 8 to 16 bytes for each request. For each subject, at
/// most as many requests are stored as the quota admits. Subjects whose requests have all left the window are removed.
/// Each limit of the host application takes another 25 KiB; of many limits, those without a subject are removed.
///
/// At most `capacity` subjects of one kind (IPv4 client, IPv6 network, key) are remembered under a policy. While
/// there is no room, *new* subjects share an allowance with the other new subjects of their prefix bucket: an IPv4 /16,
/// an IPv6 /16, or one of 256 groups of keys. Once there is room, such a subject gets a window of its own, which begins
/// with a copy of the shared window's requests. A subject with requests in its window is never evicted, because an
/// attacker with a million addresses could otherwise reset the count of one of them.
pub struct MemoryLimiter {
    clock: Arc<dyn Clock>,
    /// The tables of each policy, except the policies that the host application defines. The tables are separate, so
    /// that a flood of addresses takes no room from keys, and one policy takes no room from another.
    policies: [Tables; POLICIES],
    host: RwLock<HostTables>,
    capacity: usize,
}

/// The tables of the host application's limits. There may be ever new limits, because their quotas may depend on data
/// of the host application, such as what a customer has booked.
#[derive(Default)]
struct HostTables {
    tables: HashMap<Policy, Arc<Tables>>,
    /// The number of limits at which unused ones are removed, if it is not below [`FEW_LIMITS`]. It is twice the number
    /// that the last removal left, so that the average cost of removals per new limit is constant.
    sweep_at: usize,
}

struct Tables {
    /// The IPv4 clients, and [`UNKNOWN`] for all clients whose address is unknown.
    v4: Table<u64>,
    v6: Table<u64>,
    keys: Table<u128>,
}

impl MemoryLimiter {
    /// Returns a limiter that measures time on `clock` and remembers up to a million subjects of each kind under each
    /// policy.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_capacity(clock, DEFAULT_CAPACITY)
    }

    /// Returns a limiter that remembers up to `capacity` subjects of each kind under each policy. The subjects are
    /// distributed over 64 shards by hash. Each shard has room for an equal share of `capacity`, rounded up and at
    /// least 1.
    #[must_use]
    pub fn with_capacity(clock: Arc<dyn Clock>, capacity: usize) -> Self {
        let policies = std::array::from_fn(|_| Tables::new(capacity));
        Self { clock, policies, host: RwLock::default(), capacity }
    }

    /// Returns how many subjects are remembered now.
    #[must_use]
    pub fn len(&self) -> usize {
        let hosts = self.host.read().unwrap_or_else(PoisonError::into_inner);
        self.policies.iter().chain(hosts.tables.values().map(Arc::as_ref)).map(Tables::len).sum()
    }

    /// Returns whether no subject is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn decide(&self, subject: &Subject, quota: Quota) -> Decision {
        let now = || nanoseconds(self.clock.monotonic());
        let [product, validate, webhook, admin, failures, events, resend, desk, files] = &self.policies;
        let tables = match subject.policy {
            Policy::Product => product,
            Policy::Validate => validate,
            Policy::Webhook => webhook,
            Policy::Admin => admin,
            Policy::Failures => failures,
            Policy::Events => events,
            Policy::Resend => resend,
            Policy::Desk => desk,
            Policy::Files => files,
            Policy::Host(..) => return self.of_host(subject.policy).decide(subject.identity, quota, now),
        };
        tables.decide(subject.identity, quota, now)
    }

    fn of_host(&self, policy: Policy) -> Arc<Tables> {
        let known = self.host.read().unwrap_or_else(PoisonError::into_inner).tables.get(&policy).cloned();
        known.unwrap_or_else(|| {
            let mut hosts = self.host.write().unwrap_or_else(PoisonError::into_inner);
            if hosts.tables.len() >= hosts.sweep_at.max(FEW_LIMITS) {
                let now = nanoseconds(self.clock.monotonic());
                // A table that another request is using has a second owner. It gets no new owner during this removal.
                hosts.tables.retain(|_, tables| Arc::strong_count(tables) > 1 || !tables.is_unused(now));
                hosts.sweep_at = hosts.tables.len() * 2;
            }
            hosts.tables.entry(policy).or_insert_with(|| Arc::new(Tables::new(self.capacity))).clone()
        })
    }
}

impl Tables {
    fn new(capacity: usize) -> Self {
        Self { v4: Table::new(capacity), v6: Table::new(capacity), keys: Table::new(capacity) }
    }

    fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.keys.len()
    }

    /// Removes expired subjects. Returns whether none is left.
    fn is_unused(&self, now: u64) -> bool {
        self.v4.is_unused(now) && self.v6.is_unused(now) && self.keys.is_unused(now)
    }

    fn decide(&self, identity: Identity, quota: Quota, now: impl Fn() -> u64) -> Decision {
        match identity {
            Identity::Key(id) => self.keys.decide(id, id & 0xff, quota, now),
            Identity::V4(address) => {
                let address = u64::from(address.to_bits());
                self.v4.decide(address, address & 0xffff_0000, quota, now)
            }
            Identity::V6(network) => self.v6.decide(network, network & 0xffff_0000_0000_0000, quota, now),
            Identity::Unknown => self.v4.decide(UNKNOWN, UNKNOWN, quota, now),
        }
    }
}

#[async_trait]
impl RateLimiter for MemoryLimiter {
    async fn admit(&self, subject: &Subject, quota: Quota) -> Result<Decision, LimitError> {
        Ok(self.decide(subject, quota))
    }
}

impl fmt::Debug for MemoryLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimiter").field("subjects", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use chrono::{DateTime, Utc};

    use super::super::HostPolicy;
    use super::*;

    #[derive(Debug, Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn now(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    fn subject(index: u32) -> Subject {
        Subject { policy: Policy::Validate, identity: Identity::V4(Ipv4Addr::from_bits(index)) }
    }

    #[test]
    fn a_million_addresses_fill_a_bounded_memory_and_evict_no_live_one() {
        let clock = Arc::new(Seconds::default());
        let limiter = MemoryLimiter::with_capacity(clock.clone(), 6400);
        let quota = Quota::per_minute(2).unwrap();
        let victim = subject(u32::MAX);
        let refused = |subject: Subject| matches!(limiter.decide(&subject, quota), Decision::Refused { .. });
        assert!(!refused(victim) && !refused(victim) && refused(victim));
        for index in 0..1_000_000 {
            limiter.decide(&subject(index), quota);
        }
        assert!(limiter.len() <= 6400);
        assert!(refused(victim), "a flood of other addresses must not reset a count");
        clock.0.store(60, Ordering::Relaxed);
        assert!(!refused(victim));
        for index in 0..6400 {
            limiter.decide(&subject(index), quota);
        }
        assert!((0..100).all(|index| !refused(subject(index))), "what is over makes room for exact windows again");
    }

    #[test]
    fn who_shared_an_allowance_gets_no_second_one_when_there_is_room_again() {
        let clock = Arc::new(Seconds::default());
        let limiter = MemoryLimiter::with_capacity(clock.clone(), 64);
        let quota = Quota::per_minute(2).unwrap();
        let admitted = |subject: Subject| matches!(limiter.decide(&subject, quota), Decision::Admitted { .. });
        for index in 0..10_000 {
            admitted(subject(index));
        }
        // The new subject is the only one in its /16 network, so it shares its allowance with no other subject.
        clock.0.store(59, Ordering::Relaxed);
        let newcomer = subject(u32::MAX);
        assert!(admitted(newcomer) && admitted(newcomer) && !admitted(newcomer));
        clock.0.store(61, Ordering::Relaxed);
        assert!(!admitted(newcomer), "the others have left, but its own two requests have not");
        clock.0.store(119, Ordering::Relaxed);
        assert!(admitted(newcomer));
    }

    #[test]
    fn a_neighbourhood_that_had_to_share_is_free_again_within_a_window() {
        let clock = Arc::new(Seconds::default());
        let limiter = MemoryLimiter::with_capacity(clock.clone(), 6400);
        let quota = Quota::per_minute(2).unwrap();
        let admitted = |subject: Subject| matches!(limiter.decide(&subject, quota), Decision::Admitted { .. });
        for index in 0..20_000 {
            admitted(subject(index));
        }
        // Every ten seconds, another new subject sends requests. It is in the same /16 network as the subjects above,
        // which had to share a window. None of its requests may extend that window.
        let newcomers: Vec<bool> = (20_000..20_020)
            .flat_map(|index| {
                clock.0.store(61 + u64::from(index - 20_000) * 10, Ordering::Relaxed);
                [admitted(subject(index)), admitted(subject(index)), !admitted(subject(index))]
            })
            .collect();
        assert!(newcomers.iter().all(|exact| *exact), "{newcomers:?}");
    }

    #[test]
    fn limits_of_a_host_are_removed_when_nobody_uses_them_any_more() {
        let clock = Arc::new(Seconds::default());
        let limiter = MemoryLimiter::with_capacity(clock.clone(), 64);
        let admitted = |limit: u32, window: Duration| {
            let quota = Quota::new(limit, window).unwrap();
            let policy = Policy::Host(HostPolicy::new("plan"), quota);
            let decision = limiter.decide(&Subject { policy, identity: Identity::Key(1) }, quota);
            matches!(decision, Decision::Admitted { .. })
        };
        let (day, short) = (Duration::from_hours(24), Duration::from_secs(10));
        assert!(admitted(1, day));
        for second in 0..1_000_u32 {
            clock.0.store(second.into(), Ordering::Relaxed);
            assert!(admitted(2 + second, short));
        }
        assert!(!admitted(1, day), "its request is still in the window");
        let left = limiter.host.read().unwrap().tables.len();
        assert!(left <= FEW_LIMITS, "{left}");
    }

    #[test]
    fn addresses_count_as_the_client_they_stand_for() {
        for (address, identity) in [
            ("192.0.2.1", Identity::V4(Ipv4Addr::new(192, 0, 2, 1))),
            ("::ffff:192.0.2.1", Identity::V4(Ipv4Addr::new(192, 0, 2, 1))),
            ("2001:db8:1:2:3:4:5:6", Identity::V6(0x2001_0db8_0001_0002)),
            ("2001:db8:1:2:ffff::1", Identity::V6(0x2001_0db8_0001_0002)),
        ] {
            assert_eq!(Identity::from(address.parse::<IpAddr>().unwrap()), identity);
        }
    }
}
