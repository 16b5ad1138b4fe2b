//! The in-process limiter: exact, sharded, bounded.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::window::Window;
use super::{Decision, Identity, LimitError, Policy, Quota, RateLimiter, Subject};
use crate::clock::Clock;

/// Shards keep threads from waiting for each other; each policy has its own, so that a flood of addresses takes no room
/// from keys.
const SHARDS: usize = 64;
const POLICIES: usize = 5;
/// Identities remembered by default for each policy.
const DEFAULT_CAPACITY: usize = 1 << 20;
/// A full shard is swept so often, not for each newcomer.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Rate limits of one process: an exact sliding window for each subject.
///
/// Memory is bounded. Subjects whose requests have all left the window are forgotten; when `capacity` subjects of a policy
/// are live at once, *new* ones share the allowance of their neighbourhood (an IPv4 /16, an IPv6 /16, one of 256 groups of
/// keys) until nothing of it is left in the window. A live subject is never evicted: an attacker with a million addresses
/// could otherwise reset its own count.
pub struct MemoryLimiter {
    clock: Arc<dyn Clock>,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    shard_capacity: usize,
    /// Whether any neighbourhood ever had to share: until then nobody looks there.
    crowded: AtomicBool,
}

#[derive(Default)]
struct Shard {
    windows: Windows,
    /// Windows of neighbourhoods, at most 65,536 for each policy over all shards.
    shared: Windows,
    /// Forget what is over when so many windows are held: doubled after each sweep, so that sweeping costs each
    /// request a constant on average.
    sweep_at: usize,
    /// When that was done last.
    swept: Duration,
}

type Windows = HashMap<Subject, (Window, Quota)>;

impl MemoryLimiter {
    /// A limiter that measures time on `clock` and remembers up to a million subjects of each policy.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_capacity(clock, DEFAULT_CAPACITY)
    }

    /// A limiter that remembers `capacity` subjects of each policy, in shards of at least one.
    #[must_use]
    pub fn with_capacity(clock: Arc<dyn Clock>, capacity: usize) -> Self {
        let shards = (0..SHARDS * POLICIES).map(|_| Mutex::default()).collect();
        let shard_capacity = capacity.div_ceil(SHARDS).max(1);
        Self { clock, hasher: RandomState::new(), shards, shard_capacity, crowded: AtomicBool::new(false) }
    }

    /// How many subjects are remembered now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).windows.len()).sum()
    }

    /// Whether nobody is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, subject: &Subject) -> Option<MutexGuard<'_, Shard>> {
        let hash = usize::try_from(self.hasher.hash_one(subject) >> 32).unwrap_or_default();
        let policy = match subject.policy {
            Policy::Product => 0,
            Policy::Validate => 1,
            Policy::Webhook => 2,
            Policy::Admin => 3,
            Policy::Failures => 4,
        };
        self.shards.get(policy * SHARDS + hash % SHARDS).map(lock)
    }

    fn decide(&self, subject: &Subject, quota: Quota) -> Option<Decision> {
        if self.crowded.load(Ordering::Relaxed) && !self.shard(subject)?.windows.contains_key(subject) {
            // A newcomer who has shared would get a second allowance with a window of its own.
            if let Some(decision) = self.admit_shared(subject, quota, false)? {
                return Some(decision);
            }
        }
        let mut shard = self.shard(subject)?;
        // The time is read under the lock: it must not run backwards inside a window.
        let decision = shard.admit(subject, quota, self.clock.monotonic(), self.shard_capacity);
        drop(shard);
        if decision.is_some() {
            return decision;
        }
        self.crowded.store(true, Ordering::Relaxed);
        self.admit_shared(subject, quota, true)?
    }

    /// Decides by the neighbourhood's window: if it is live, or if it may be `opened`.
    #[expect(clippy::option_option, reason = "no shard, or no live window")]
    fn admit_shared(&self, subject: &Subject, quota: Quota, opened: bool) -> Option<Option<Decision>> {
        let neighbourhood = neighbourhood(subject);
        let mut shard = self.shard(&neighbourhood)?;
        let now = self.clock.monotonic();
        let live = shard.shared.get(&neighbourhood).is_some_and(|(window, _)| !window.is_over(now, quota));
        Some((live || opened).then(|| {
            let (window, _) = shard.shared.entry(neighbourhood).or_insert_with(|| (Window::default(), quota));
            window.admit(now, quota)
        }))
    }
}

impl Shard {
    /// Decides for a subject that is known or for which there is room; `None` if there is none.
    fn admit(&mut self, subject: &Subject, quota: Quota, now: Duration, capacity: usize) -> Option<Decision> {
        if let Some((window, of)) = self.windows.get_mut(subject) {
            *of = quota;
            return Some(window.admit(now, quota));
        }
        let full = self.windows.len() >= capacity && now.saturating_sub(self.swept) >= SWEEP_EVERY;
        if full || self.windows.len() >= self.sweep_at {
            self.swept = now;
            self.windows.retain(|_, (window, quota)| !window.is_over(now, *quota));
            self.shared.retain(|_, (window, quota)| !window.is_over(now, *quota));
            self.sweep_at = (self.windows.len() * 2).max(64);
        }
        if self.windows.len() >= capacity {
            return None;
        }
        let (window, _) = self.windows.entry(*subject).or_insert_with(|| (Window::default(), quota));
        Some(window.admit(now, quota))
    }
}

/// The coarser identity that newcomers share when there is no room for each of them.
fn neighbourhood(subject: &Subject) -> Subject {
    let identity = match subject.identity {
        Identity::Key(id) => Identity::Key(id & 0xff),
        Identity::V4(address) => Identity::V4(Ipv4Addr::from_bits(address.to_bits() & 0xffff_0000)),
        Identity::V6(network) => Identity::V6(network & 0xffff_0000_0000_0000),
        Identity::Unknown => Identity::Unknown,
    };
    Subject { policy: subject.policy, identity }
}

/// A panic elsewhere leaves a window as it was before or after a count; both are usable.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl RateLimiter for MemoryLimiter {
    async fn admit(&self, subject: &Subject, quota: Quota) -> Result<Decision, LimitError> {
        self.decide(subject, quota).ok_or_else(|| LimitError::new("no such shard", None))
    }
}

impl fmt::Debug for MemoryLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimiter").field("subjects", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::AtomicU64;

    use chrono::{DateTime, Utc};

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
        let refused = |subject: Subject| matches!(limiter.decide(&subject, quota), Some(Decision::Refused { .. }));
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
        let admitted = |subject: Subject| matches!(limiter.decide(&subject, quota), Some(Decision::Admitted { .. }));
        for index in 0..10_000 {
            admitted(subject(index));
        }
        // Of a neighbourhood of its own, so that its allowance is its own too.
        clock.0.store(59, Ordering::Relaxed);
        let newcomer = subject(u32::MAX);
        assert!(admitted(newcomer) && admitted(newcomer) && !admitted(newcomer));
        clock.0.store(61, Ordering::Relaxed);
        assert!(!admitted(newcomer), "the others have left, but its own two requests have not");
        clock.0.store(119, Ordering::Relaxed);
        assert!(admitted(newcomer));
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
