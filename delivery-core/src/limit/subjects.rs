//! What is remembered of subjects: eight bytes beside the name of one that has a single request in its window, as most of a
//! flood have, and a log for the others.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use hashbrown::HashTable;
use slab::Slab;

use super::window::{Window, left};
use super::{Decision, Quota};

/// A full map is swept so often, not for each newcomer.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The only request of a subject by its instant, or, with the highest bit set, the place of its log.
#[derive(Clone, Copy)]
struct Slot(u64);

const LOG: u64 = 1 << 63;

enum Kept {
    One(u64),
    Log(usize),
}

/// Subjects by name, each with an exact window.
pub(super) struct Subjects<K> {
    /// By the hash that the caller has too: it chose these subjects by it.
    slots: HashTable<(K, Slot)>,
    hasher: RandomState,
    logs: Slab<Window>,
    /// The longest window asked for: who was quiet for so long is forgotten.
    longest: Duration,
    /// Forget them when so many are held: doubled after each sweep, so that sweeping costs each request a constant on
    /// average.
    sweep_at: usize,
    /// When that was done last.
    swept: u64,
}

impl<K: Hash + Eq> Subjects<K> {
    pub(super) fn new(hasher: RandomState) -> Self {
        let (slots, logs) = (HashTable::new(), Slab::new());
        Self { slots, hasher, logs, longest: Duration::ZERO, sweep_at: 64, swept: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Decides for a subject that is known.
    pub(super) fn admit_known(&mut self, subject: &K, hash: u64, now: u64, quota: Quota) -> Option<Decision> {
        let (_, slot) = self.slots.find_mut(hash, |(known, _)| known == subject)?;
        self.longest = self.longest.max(quota.window());
        Some(match slot.read() {
            Kept::One(at) if left(at, now, quota.window()) => {
                *slot = Slot::one(now);
                first(quota)
            }
            Kept::One(at) => {
                let mut log = Window::of(at);
                let decision = log.admit(now, quota);
                if log.only().is_none() {
                    *slot = Slot::log(self.logs.insert(log));
                }
                decision
            }
            Kept::Log(place) => {
                let log = self.logs.get_mut(place)?;
                let decision = log.admit(now, quota);
                if let Some(at) = log.only() {
                    *slot = Slot::one(at);
                    self.logs.try_remove(place);
                }
                decision
            }
        })
    }

    /// Decides for one that is not, as if this were its window so far. One that is refused is not remembered.
    pub(super) fn admit_new(&mut self, subject: K, hash: u64, mut window: Window, now: u64, quota: Quota) -> Decision {
        self.longest = self.longest.max(quota.window());
        if window.is_over(now, quota.window()) {
            self.remember(subject, hash, Slot::one(now));
            return first(quota);
        }
        let decision = window.admit(now, quota);
        if matches!(decision, Decision::Admitted { .. }) {
            let place = self.logs.insert(window);
            self.remember(subject, hash, Slot::log(place));
        }
        decision
    }

    /// The caller has looked: it is not there.
    fn remember(&mut self, subject: K, hash: u64, slot: Slot) {
        self.slots.insert_unique(hash, (subject, slot), |(known, _)| self.hasher.hash_one(known));
    }

    /// A copy of a subject's window.
    pub(super) fn window(&self, subject: &K, hash: u64) -> Option<Window> {
        let (_, slot) = self.slots.find(hash, |(known, _)| known == subject)?;
        match slot.read() {
            Kept::One(at) => Some(Window::of(at)),
            Kept::Log(place) => self.logs.get(place).cloned(),
        }
    }

    /// Whether one more can be remembered, if need be once those are forgotten whose requests have all left.
    pub(super) fn has_room(&mut self, now: u64, capacity: usize) -> bool {
        let full = self.slots.len() >= capacity && left(self.swept, now, SWEEP_EVERY);
        if full || self.slots.len() >= self.sweep_at {
            self.sweep(now);
        }
        self.slots.len() < capacity
    }

    fn sweep(&mut self, now: u64) {
        let (logs, longest) = (&mut self.logs, self.longest);
        self.slots.retain(|(_, slot)| {
            let over = is_over(*slot, logs, now, longest);
            if let (true, Kept::Log(place)) = (over, slot.read()) {
                logs.try_remove(place);
            }
            !over
        });
        self.swept = now;
        self.sweep_at = (self.slots.len() * 2).max(64);
        // What a flood has left behind.
        if self.slots.capacity() > self.sweep_at * 4 {
            self.slots.shrink_to(self.sweep_at, |(known, _)| self.hasher.hash_one(known));
        }
        self.logs.shrink_to_fit();
    }
}

fn is_over(slot: Slot, logs: &Slab<Window>, now: u64, length: Duration) -> bool {
    match slot.read() {
        Kept::One(at) => left(at, now, length),
        Kept::Log(place) => logs.get(place).is_none_or(|log| log.is_over(now, length)),
    }
}

/// The decision about the first request in a window.
fn first(quota: Quota) -> Decision {
    Decision::Admitted { remaining: quota.limit().get() - 1, reset: quota.window() }
}

impl Slot {
    fn one(at: u64) -> Self {
        Self(at & !LOG)
    }

    fn log(place: usize) -> Self {
        Self(place as u64 | LOG)
    }

    fn read(self) -> Kept {
        if self.0 & LOG == 0 {
            Kept::One(self.0)
        } else {
            Kept::Log(usize::try_from(self.0 & !LOG).unwrap_or(usize::MAX))
        }
    }
}
