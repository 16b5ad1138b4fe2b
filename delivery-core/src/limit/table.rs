//! Subjects of one kind under one policy, in shards; and what happens when there are too many.

use std::hash::{BuildHasher, Hash, RandomState};

use super::subjects::Subjects;
use super::window::Window;
use super::{Decision, Quota};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(all(test, shuttle))]
mod interleaved;

/// Shards keep threads from waiting for each other.
const SHARDS: usize = 64;

pub(super) struct Table<K> {
    hasher: RandomState,
    shards: [Mutex<Subjects<K>>; SHARDS],
    shard_capacity: usize,
    /// Windows that neighbourhoods share. Locked while a newcomer's own shard is, and never the other way round: between
    /// two looks a second request of the same newcomer could find room for a window of its own, and with it a second
    /// allowance.
    shared: Mutex<Subjects<K>>,
    /// Whether any neighbourhood ever had to share: until then nobody looks there.
    crowded: AtomicBool,
}

impl<K: Hash + Eq + Copy> Table<K> {
    pub(super) fn new(capacity: usize) -> Self {
        let hasher = RandomState::new();
        let subjects = || Mutex::new(Subjects::new(hasher.clone()));
        let (shards, shared) = (std::array::from_fn(|_| subjects()), subjects());
        let shard_capacity = capacity.div_ceil(SHARDS).max(1);
        Self { hasher, shards, shard_capacity, shared, crowded: AtomicBool::new(false) }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Decides for a subject; its neighbourhood counts if there is no room for it.
    pub(super) fn decide(&self, subject: K, neighbourhood: K, quota: Quota, clock: impl Fn() -> u64) -> Decision {
        let hash = self.hasher.hash_one(subject);
        let mut shard = lock(self.shard(hash));
        // The time is read under the lock: it must not run backwards inside a window.
        let now = clock();
        if let Some(decision) = shard.admit_known(&subject, hash, now, quota) {
            return decision;
        }
        let near = move || self.hasher.hash_one(neighbourhood);
        let mut neighbours = self.crowded.load(Ordering::Relaxed).then(|| lock(&self.shared));
        // That may have taken a while.
        let now = if neighbours.is_some() { clock() } else { now };
        if shard.has_room(now, self.shard_capacity) {
            // A newcomer who has shared would get a second allowance with an empty window. What its neighbourhood has used
            // may be its own; with a copy of that it is at worst refused too much, for one window, and the window that was
            // shared comes to its end.
            let used = neighbours.as_ref().and_then(|known| known.window(&neighbourhood, near()));
            return shard.admit_new(subject, hash, used.unwrap_or_default(), now, quota);
        }
        self.crowded.store(true, Ordering::Relaxed);
        let neighbours = neighbours.get_or_insert_with(|| lock(&self.shared));
        let now = clock();
        neighbours.admit_known(&neighbourhood, near(), now, quota).unwrap_or_else(|| {
            // There always is; but those that are over are to be forgotten here too.
            neighbours.has_room(now, usize::MAX);
            neighbours.admit_new(neighbourhood, near(), Window::default(), now, quota)
        })
    }

    /// Which shard is a subject's: by the bits of the hash that its table does not use first.
    fn shard(&self, hash: u64) -> &Mutex<Subjects<K>> {
        let [first, ..] = &self.shards;
        self.shards.get(usize::try_from(hash >> 32).unwrap_or_default() % SHARDS).unwrap_or(first)
    }
}

/// A panic elsewhere leaves a window as it was before or after a count; both are usable.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
