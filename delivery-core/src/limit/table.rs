//! The subjects of one kind, such as IPv4 clients, under one policy. They are divided into shards. A new subject for
//! which there is no room shares a window with the other new subjects of its prefix bucket, such as its network.

use std::hash::{BuildHasher, Hash, RandomState};

use super::subjects::Subjects;
use super::window::Window;
use super::{Decision, Quota};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(all(test, shuttle))]
mod interleaved;

/// The number of shards. Each shard has a lock of its own, so that threads rarely wait for each other.
const SHARDS: usize = 64;

pub(super) struct Table<K> {
    hasher: RandomState,
    /// Boxed, because without the box, all tables together would fill a large part of a thread's stack during
    /// construction.
    shards: Box<[Mutex<Subjects<K>>; SHARDS]>,
    shard_capacity: usize,
    /// The windows that subjects of one prefix bucket share. This lock is taken only while the shard of the new subject
    /// is locked. If the shard were unlocked first, a second request of the same subject could meanwhile find room for
    /// a window of its own, and get a second allowance.
    shared: Mutex<Subjects<K>>,
    /// Whether any subject ever had to use a shared window. If not, `shared` need not be locked.
    overflowed: AtomicBool,
}

impl<K: Hash + Eq + Copy> Table<K> {
    pub(super) fn new(capacity: usize) -> Self {
        let hasher = RandomState::new();
        let subjects = || Mutex::new(Subjects::new(hasher.clone()));
        let (shards, shared) = (Box::new(std::array::from_fn(|_| subjects())), subjects());
        let shard_capacity = capacity.div_ceil(SHARDS).max(1);
        Self { hasher, shards, shard_capacity, shared, overflowed: AtomicBool::new(false) }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Returns whether no subject is left, apart from expired ones. May remove expired subjects.
    pub(super) fn is_unused(&self, now: u64) -> bool {
        self.shards.iter().all(|shard| lock(shard).is_unused(now)) && lock(&self.shared).is_unused(now)
    }

    /// Decides about a request of a subject. If there is no room for the subject, the request counts in the window of
    /// its prefix bucket.
    pub(super) fn decide(&self, subject: K, prefix_bucket: K, quota: Quota, clock: impl Fn() -> u64) -> Decision {
        let hash = self.hasher.hash_one(subject);
        let mut shard = lock(self.shard(hash));
        // The time is read while the lock is held, because it must not run backwards inside a window.
        let now = clock();
        if let Some(decision) = shard.admit_known(&subject, hash, now, quota) {
            return decision;
        }
        let near = move || self.hasher.hash_one(prefix_bucket);
        let mut neighbours = self.overflowed.load(Ordering::Relaxed).then(|| lock(&self.shared));
        // Waiting for the second lock may have taken a while, so the time is read again.
        let now = if neighbours.is_some() { clock() } else { now };
        if shard.has_room(now, self.shard_capacity) {
            // The new subject may have used the shared window before. If it began with an empty window, it would get a
            // second allowance. It therefore begins with a copy of the shared window, as if the requests there were its
            // own. At worst, requests that would fit are refused for the length of one window. This request is not
            // added to the shared window, so the shared window can expire.
            let used = neighbours.as_ref().and_then(|known| known.window(&prefix_bucket, near()));
            return shard.admit_new(subject, hash, used.unwrap_or_default(), now, quota);
        }
        self.overflowed.store(true, Ordering::Relaxed);
        let neighbours = neighbours.get_or_insert_with(|| lock(&self.shared));
        let now = clock();
        neighbours.admit_known(&prefix_bucket, near(), now, quota).unwrap_or_else(|| {
            // There is always room here. The call is made because it also removes prefix buckets whose requests have
            // all left their windows.
            neighbours.has_room(now, usize::MAX);
            neighbours.admit_new(prefix_bucket, near(), Window::default(), now, quota)
        })
    }

    /// Returns the shard of a subject, chosen by bits 32 to 37 of the hash. The hash table of the shard uses other
    /// bits: the lowest ones and the highest ones.
    fn shard(&self, hash: u64) -> &Mutex<Subjects<K>> {
        let [first, ..] = &*self.shards;
        self.shards.get(usize::try_from(hash >> 32).unwrap_or_default() % SHARDS).unwrap_or(first)
    }
}

/// Locks `state` and ignores poisoning. If a thread panics while it holds the lock, each window is in the state either
/// before or after a request was counted. Both states are usable.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
